// Sample orders of the epochs in use, shared by threads.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/api/dataset.h"
#include "data/loader/curriculum.h"

namespace accel {

/// The draws of an epoch (EpochOrder::draws), in order.
class SampleOrder {
 public:
  /// 0, 1, 2, ...
  SampleOrder() = default;
  explicit SampleOrder(std::vector<int64_t> table)
      : table_(std::make_shared<const std::vector<int64_t>>(std::move(table))) {}

  int64_t operator[](int64_t position) const {
    return table_ ? (*table_)[static_cast<size_t>(position)] : position;
  }

 private:
  std::shared_ptr<const std::vector<int64_t>> table_;
};

struct SamplerOptions {
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t block = 0;         ///< of block_permutation(); 0: epoch_permutation()
  int64_t length_group = 0;  ///< batch size of length groups; 0: none
  CurriculumPlan curriculum = {};
  int64_t batch = 1;            ///< of the curriculum's steps
  int64_t steps_per_epoch = 1;  ///< the same
};

/// Computes an epoch's order on first use and caches two epochs. Thread-safe.
class EpochSampler {
 public:
  /// Throws DataError for length groups of a dataset that does not know lengths, for a curriculum
  /// of one that does not know difficulties, and for a curriculum or blocks of one with an
  /// EpochOrder.
  EpochSampler(std::shared_ptr<const Dataset> dataset, const SamplerOptions& options);

  /// Draws per epoch.
  int64_t size() const;
  SampleOrder of(int64_t epoch);
  /// permutation(size(), `seed`) becomes the order of all epochs. For a shuffled dataset without an
  /// EpochOrder.
  void set_sampler_seed(uint64_t seed);

 private:
  SampleOrder make(int64_t epoch) const;
  std::vector<int64_t> order(int64_t epoch) const;

  const std::shared_ptr<const Dataset> dataset_;
  const SamplerOptions options_;
  std::vector<int64_t> lengths_;  // of samples, with group_by_length
  std::optional<Curriculum> curriculum_;
  std::optional<uint64_t> sampler_seed_;
  std::mutex mutex_;
  std::map<int64_t, std::shared_future<SampleOrder>> kept_;
};

}  // namespace accel
