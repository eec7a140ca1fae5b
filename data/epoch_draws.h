// The draws of the epochs in use, made once and shared by the threads that need them.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/dataset.h"

namespace accel {

/// What an epoch visits, in order; see EpochOrder::draws for what a draw is.
class Draws {
 public:
  /// 0, 1, 2, ...
  Draws() = default;
  explicit Draws(std::vector<int64_t> table)
      : table_(std::make_shared<const std::vector<int64_t>>(std::move(table))) {}

  int64_t operator[](int64_t position) const {
    return table_ ? (*table_)[static_cast<size_t>(position)] : position;
  }

 private:
  std::shared_ptr<const std::vector<int64_t>> table_;
};

/// Makes an epoch's draws when first asked and keeps those of two epochs. Safe to share.
class EpochDraws {
 public:
  /// With `group_by_length` > 0, samples of similar length follow one another, in batches of that
  /// many. Throws DataError where the dataset does not know their lengths.
  EpochDraws(std::shared_ptr<const Dataset> dataset, uint64_t seed, bool shuffle,
             int64_t group_by_length = 0);

  /// Draws in every epoch.
  int64_t size() const;
  Draws of(int64_t epoch);

 private:
  Draws make(int64_t epoch) const;
  std::vector<int64_t> order(int64_t epoch) const;

  const std::shared_ptr<const Dataset> dataset_;
  const uint64_t seed_;
  const bool shuffle_;
  const int64_t group_by_length_;
  std::vector<int64_t> lengths_;  // of the samples, where they decide
  std::mutex mutex_;
  std::map<int64_t, std::shared_future<Draws>> kept_;
};

}  // namespace accel
