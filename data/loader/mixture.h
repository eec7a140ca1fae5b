// Combination of datasets: concatenated, or drawn from in proportions.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "data/datasets/skipped_samples.h"
#include "data/loader/epoch_order.h"
#include "data/loader/mixture_schedule.h"
#include "data/loader/read_ahead.h"

namespace accel {

/// Throws DataError naming the first dataset whose shape differs from that of the first one.
void require_same_shape(const std::vector<std::shared_ptr<const Dataset>>& sources);

/// Concatenated datasets.
class Concatenation final : public Dataset,
                            public SkipsSamples,
                            public KnowsLengths,
                            public ReadsAhead {
 public:
  /// All sources have the same shape.
  explicit Concatenation(std::vector<std::shared_ptr<const Dataset>> sources);

  int64_t size() const override { return offsets_.back(); }
  Sample sample(int64_t index) const override;
  DataShape shape() const override { return sources_.front()->shape(); }
  std::string fingerprint() const override;
  int64_t left_out() const override;
  bool lengths_known() const override;
  int64_t length(int64_t index) const override;
  void read_singly() const override;
  int64_t samples_ahead() const override;
  void read_ahead(std::span<const int64_t> samples) const override;
  void forget_ahead() const override;
  bool exceeds_cache() const override;

  const std::vector<std::shared_ptr<const Dataset>>& sources() const { return sources_; }
  /// The source of sample `index`.
  size_t source_of(int64_t index) const;
  /// Index of the source's first sample.
  int64_t offset(size_t source) const { return offsets_[source]; }

 private:
  std::vector<std::shared_ptr<const Dataset>> sources_;
  std::vector<int64_t> offsets_;  // first index of each source, and the total
};

/// An entry of a recipe's list of datasets.
struct DataPart {
  std::shared_ptr<const Dataset> dataset;
  std::optional<double> weight;  ///< relative share of the draws
};

/// Combines a recipe's entries: a single dataset is returned as is; entries without weights are
/// concatenated; entries with weights form a Mixture. Throws DataError if shapes differ, if only
/// some entries have a weight, and if a weight is too small for one sample.
std::shared_ptr<const Dataset> combine(std::vector<DataPart> parts);
/// Mixes them with weights by step instead of those of the entries.
std::shared_ptr<const Dataset> combine(std::vector<DataPart> parts, MixtureSchedule schedule);

/// Draws from datasets in proportions, fixed or by step, evenly spread: any n consecutive draws
/// hold each source's share within a few samples. An epoch has the total number of samples. A
/// source continues where the previous epoch stopped and is reshuffled when exhausted, so that even
/// a small weight covers a long source eventually.
class Mixture final : public Dataset,
                      public EpochOrder,
                      public SkipsSamples,
                      public KnowsLengths,
                      public ReadsAhead {
 public:
  /// `weights`: positive, one per source. All sources have the same shape.
  Mixture(std::vector<std::shared_ptr<const Dataset>> sources, const std::vector<double>& weights);
  /// Of weights by step, one of them above 0 at every step.
  Mixture(std::vector<std::shared_ptr<const Dataset>> sources, MixtureSchedule schedule);

  int64_t size() const override { return samples_.size(); }
  Sample sample(int64_t index) const override { return samples_.sample(index); }
  DataShape shape() const override { return samples_.shape(); }
  std::string fingerprint() const override;
  int64_t left_out() const override { return samples_.left_out(); }
  bool lengths_known() const override { return samples_.lengths_known(); }
  int64_t length(int64_t index) const override { return samples_.length(index); }
  void read_singly() const override { samples_.read_singly(); }
  int64_t samples_ahead() const override { return samples_.samples_ahead(); }
  void read_ahead(std::span<const int64_t> samples) const override { samples_.read_ahead(samples); }
  void forget_ahead() const override { samples_.forget_ahead(); }
  bool exceeds_cache() const override { return samples_.exceeds_cache(); }

  int64_t epoch_size() const override { return size(); }
  std::vector<int64_t> draws(uint64_t seed, int64_t epoch, bool shuffle) const override;

  /// Draws per source and epoch; the sum is epoch_size(). Empty for weights by step.
  const std::vector<int64_t>& counts() const { return counts_; }
  const Concatenation& parts() const { return samples_; }
  /// "70 % : 30 %", or of weights by step "90 % : 10 % at step 0, 50 % : 50 % at step 1,000".
  std::string proportions() const;

 private:
  /// The turns as of the start of an epoch.
  ScheduledTurns turns_of(int64_t epoch) const;

  Concatenation samples_;
  std::vector<int64_t> counts_;
  std::optional<MixtureSchedule> schedule_;
  mutable std::mutex mutex_;  // guards the two below: the latest epoch whose start is known
  mutable std::optional<ScheduledTurns> turns_;
  mutable int64_t turns_epoch_ = 0;
};

/// The sources of a combined dataset; null for others.
const Concatenation* parts_of(const Dataset& dataset);

}  // namespace accel
