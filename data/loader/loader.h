// Loader: the global batches of optimizer steps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/api/dataset.h"
#include "data/loader/curriculum.h"
#include "data/loader/epoch_sampler.h"
#include "data/loader/host_batch.h"
#include "data/loader/shard.h"

namespace accel {

class Prefetcher;
class SelectedSamples;

/// The samples of one optimizer step, within one epoch. All members except `micro_batches` are
/// totals over ranks and equal on every rank.
struct GlobalBatch {
  std::vector<HostBatch> micro_batches;  ///< of this rank; in an epoch's last global batch some may
                                         ///< be short or missing
  int64_t epoch = 0;
  int64_t step = 0;               ///< within the epoch, from 0
  int64_t samples = 0;            ///< counted samples
  int64_t padded = 0;             ///< repeated samples that only pad micro-batches
  int64_t num_micro_batches = 0;  ///< HostBatch::micro_batch_index numbers them from 0
  uint64_t digest = 0;            ///< of the ids of `samples` in epoch order
};

struct LoaderOptions {
  int64_t batch = 1;        ///< samples per global batch, a multiple of `micro_batch` * `world`
  int64_t micro_batch = 1;  ///< samples per HostBatch
  int64_t workers = 0;      ///< worker threads; 0: next() makes batches itself
  int64_t prefetch = 2;     ///< global batches prepared ahead by workers
  bool shuffle = true;      ///< false: dataset order in every epoch
  int64_t shuffle_block_size = 0;  ///< of block_permutation(); 0: epoch_permutation()
  bool group_by_length = false;    ///< requires `shuffle`
  CurriculumPlan curriculum = {};  ///< requires `shuffle`
  bool drop_last = false;          ///< drop an epoch's last global batch if it is short
  bool repeat = true;              ///< false: one epoch per seek(), without prefetching beyond it
  uint64_t seed = 0;               ///< of order and transforms
  int64_t rank = 0;                ///< this rank
  int64_t world = 1;               ///< number of ranks
  Sharing sharing = Sharing::kBatches;  ///< distribution of an epoch's last round
  bool even_batches = true;  ///< pad an epoch's short last round with samples from its start, so
                             ///< that all ranks have equal micro-batches; no effect with one rank
  bool all_ranks = false;    ///< ShardPlan::all_ranks
};

/// Global batches of an epoch; at least 1.
int64_t steps_of_epoch(int64_t samples, int64_t batch, bool drop_last);

/// Global batches are independent of the number of workers, of the process and of the starting
/// point: order and augmentation are functions of (seed, epoch, sample). Micro-batch a of rank r is
/// the global batch's (a * world + r)-th, unless the end of an epoch is sliced. Not thread-safe.
class Loader {
 public:
  /// Throws DataError for fewer samples than one global batch, for `group_by_length` with a dataset
  /// of unknown lengths, and for a `curriculum` with one of unknown difficulties.
  Loader(std::shared_ptr<const Dataset> dataset, std::vector<std::unique_ptr<Transform>> transforms,
         const LoaderOptions& options);
  ~Loader();

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Counted samples per epoch over all ranks; without dropped ones.
  int64_t samples_per_epoch() const { return samples_per_epoch_; }
  const Dataset& dataset() const { return *dataset_; }
  /// For combined datasets: samples per source in the first `steps` global batches of `epoch`.
  /// Empty for a single dataset.
  std::vector<int64_t> drawn(int64_t epoch, int64_t steps);
  /// The shape of transformed samples.
  DataShape shape() const;

  /// Positions next() at global batch `step` of `epoch`; steps_per_epoch() means the start of the
  /// next epoch. Reads no skipped sample. Initially (0, 0).
  void seek(int64_t epoch, int64_t step);

  /// Changes the size of micro-batches to a divisor of a rank's share. Global batches keep their
  /// samples; call seek() afterwards.
  void set_micro_batch(int64_t samples);

  /// Replaces the orders of the epochs by permutation(samples, `seed`), RandomSampler's with a
  /// generator of that seed. For a dataset without an EpochOrder; call seek() afterwards.
  void set_sampler_seed(uint64_t seed);

  /// False at the end of the epoch without `repeat`.
  bool has_next() const;
  /// The next global batch, across epochs. Reuses the memory of `done`. Throws DataError naming the
  /// unreadable or mismatched sample; call seek() after an error.
  GlobalBatch next(GlobalBatch done = {});

 private:
  void announce(int64_t ticket);
  std::vector<int64_t> ids_of(int64_t ticket);
  HostBatch make_batch(int64_t ticket, HostBatch done = {});
  HostBatch take_batch(int64_t ticket, HostBatch done);
  HostBatch gather(std::vector<int64_t> ids, HostBatch done) const;
  Sample make_sample(int64_t epoch, int64_t draw) const;
  void account(GlobalBatch& global_batch);
  void share_out();

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<std::unique_ptr<Transform>> transforms_;
  const SelectedSamples* const selection_;  // the dataset, if it selects rows of columns_
  const std::optional<Columns> columns_;    // set if batches are gathered from columns
  LoaderOptions options_;                   // fixed when threads start
  const int64_t ids_;                       // size of the dataset
  std::optional<Padding> padding_;
  TargetLength target_length_ = TargetLength::kOfInput;
  EpochSampler draws_;
  SampleOrder accounted_draws_;
  int64_t accounted_epoch_ = -1;  // epoch of accounted_draws_
  ShardPlan plan_;
  int64_t rounds_per_window_ = 0;
  int64_t rounds_per_epoch_ = 0;
  int64_t samples_per_epoch_ = 0;
  int64_t steps_per_epoch_ = 0;
  int64_t batches_per_epoch_ = 0;  // of this rank
  int64_t epoch_ = 0;              // of the next global batch
  int64_t step_ = 0;
  int64_t end_ = 0;  // the last ticket, exclusive
  const bool reads_ahead_;
  std::mutex announcing_;                   // guards the next one
  int64_t announced_ = -1;                  // the next ticket to announce; -1: none was yet
  std::unique_ptr<Prefetcher> prefetcher_;  // last, because its threads use the other members
};

}  // namespace accel
