// From a dataset to the windows of samples that optimizer steps consume.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/dataset.h"
#include "data/epoch_draws.h"
#include "data/host_batch.h"
#include "data/prefetcher.h"
#include "data/shard.h"

namespace accel {

/// What one optimizer step consumes. Windows never straddle epochs. All but `micro_batches` is of
/// all ranks together, and alike on each of them.
struct Window {
  std::vector<HostBatch> micro_batches;  ///< this rank's, in order; in an epoch's last window some
                                         ///< may be short or missing, even all
  int64_t epoch = 0;
  int64_t step = 0;     ///< within the epoch, from 0
  int64_t samples = 0;  ///< that count, each once
  int64_t padded = 0;   ///< that only fill micro-batches, besides `samples`
  int64_t parts = 0;    ///< micro-batches; HostBatch::part numbers them from 0 without gaps
  uint64_t digest = 0;  ///< of the ids of `samples` in the epoch's order, however they are shared
};

struct LoaderOptions {
  int64_t batch = 1;             ///< samples per window; a multiple of `micro_batch` * `world`
  int64_t micro_batch = 1;       ///< samples per HostBatch
  int64_t workers = 0;           ///< threads that prepare batches; 0: next() does it itself
  int64_t prefetch = 2;          ///< windows prepared ahead when there are workers
  bool shuffle = true;           ///< false: the dataset's own order, the same every epoch
  bool group_by_length = false;  ///< samples of similar length come together; takes `shuffle`
  bool drop_last = false;        ///< leave out an epoch's last window when it is short
  bool repeat = true;            ///< false: one epoch per seek(), and nothing is prepared beyond it
  uint64_t seed = 0;             ///< of the order and of the transforms
  int64_t rank = 0;              ///< whose micro-batches the windows hold
  int64_t world = 1;             ///< ranks that share each window
  Sharing sharing = Sharing::kBatches;  ///< how; it shows only at the end of an epoch
  bool even_batches = true;  ///< when an epoch's last round is short, fill it from the epoch's
                             ///< start, so that all ranks have equal micro-batches; one rank alone
                             ///< never fills
};

/// The same windows for any number of workers, in any process, from any starting point: order and
/// augmentation are functions of (seed, epoch, sample). Micro-batch a of rank r in a window is the
/// window's (a * world + r)-th, unless an epoch's end is cut into slices. For one thread.
class Loader {
 public:
  /// Throws DataError when there is not a single window to give, and for `group_by_length` where
  /// the dataset does not know how long its samples are.
  Loader(std::shared_ptr<const Dataset> dataset, std::vector<std::unique_ptr<Transform>> transforms,
         const LoaderOptions& options);
  ~Loader();

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Samples that count in a whole epoch, over all ranks: less than the dataset holds when the last
  /// are dropped.
  int64_t samples_per_epoch() const { return samples_per_epoch_; }
  const Dataset& dataset() const { return *dataset_; }
  /// Of a dataset of several parts: samples that the first `steps` windows of `epoch` hold of each.
  /// Empty where there is but one.
  std::vector<int64_t> drawn(int64_t epoch, int64_t steps);
  /// Of the samples after all transforms.
  DataShape shape() const;

  /// Makes next() give window `step` of `epoch`; step == steps_per_epoch() is the next epoch's
  /// first. Reads nothing of what lies before it. A new loader stands at (0, 0).
  void seek(int64_t epoch, int64_t step);

  /// Cuts windows into micro-batches of another size, which divides that of a rank's part of them.
  /// The windows hold what they held; seek() before going on.
  void set_micro_batch(int64_t samples);

  /// False once the epoch is over and `repeat` is off.
  bool has_next() const;
  /// The next window; after an epoch's last comes the next epoch's first. Uses the memory of one
  /// that is `done`. Throws DataError naming the sample that cannot be read or does not fit; after
  /// an error, seek() before going on.
  Window next(Window done = {});

  /// Seconds that next() has kept its callers waiting so far.
  double wait_seconds() const { return wait_seconds_; }

 private:
  HostBatch make_batch(int64_t ticket, HostBatch done = {});
  HostBatch take_batch(int64_t ticket, HostBatch done);
  Sample make_sample(int64_t epoch, int64_t draw) const;
  void account(Window& window);
  void share_out();

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<std::unique_ptr<Transform>> transforms_;
  const std::optional<Columns> columns_;  // where batches are read from them at once
  LoaderOptions options_;                 // as its threads started
  const int64_t ids_;                     // samples of the dataset
  std::optional<Padding> padding_;
  EpochDraws draws_;
  Draws accounted_draws_;
  int64_t accounted_epoch_ = -1;  // whose draws those are
  ShardPlan plan_;
  int64_t rounds_per_window_ = 0;
  int64_t rounds_per_epoch_ = 0;
  int64_t samples_per_epoch_ = 0;
  int64_t steps_per_epoch_ = 0;
  int64_t batches_per_epoch_ = 0;  // of this rank
  int64_t epoch_ = 0;              // of the next window
  int64_t step_ = 0;
  int64_t end_ = 0;  // the ticket at which it stops
  double wait_seconds_ = 0;
  std::unique_ptr<Prefetcher> prefetcher_;  // last: its threads use all of the above
};

}  // namespace accel
