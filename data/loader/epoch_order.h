// Sample order of an epoch: shuffled, grouped by length, or defined by the dataset.
#pragma once

#include <cstdint>
#include <vector>

#include "core/api/dataset.h"

namespace accel {

/// Implemented by datasets with a sample order other than a permutation of the indices.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;

  /// Number of draws per epoch, constant over epochs.
  virtual int64_t epoch_size() const = 0;

  /// The draws of an epoch, a pure function of the arguments. Draw d is sample d % size() in its (d
  /// / size())-th repetition, which seeds augmentation.
  virtual std::vector<int64_t> draws(uint64_t seed, int64_t epoch, bool shuffle) const = 0;
};

/// A permutation of 0..n-1 with the same bits as `torch.randperm(n, generator=g)` for a CPU
/// generator seeded with `seed`. Eight bytes per number.
std::vector<int64_t> permutation(int64_t n, uint64_t seed);

/// permutation(n, seed + epoch): the order of Accelerate's seedable sampler.
std::vector<int64_t> epoch_permutation(int64_t n, uint64_t seed, int64_t epoch);

/// A permutation with locality, for data that are fetched in blocks: runs of `block` / 16
/// consecutive samples, at least one, in random order, then the samples in random order within each
/// `block` of them. A sample moves less than `block` positions from its run.
std::vector<int64_t> block_permutation(int64_t n, int64_t block, uint64_t seed, int64_t epoch);

/// Implemented by datasets that know the lengths of samples without reading them.
class KnowsLengths {
 public:
  virtual ~KnowsLengths() = default;
  /// False for a combination with a dataset of unknown lengths.
  virtual bool lengths_known() const { return true; }
  /// Length of sample `index` in tokens.
  virtual int64_t length(int64_t index) const = 0;
};

/// The lengths of all samples; empty if unknown.
std::vector<int64_t> lengths_of(const Dataset& dataset);

/// Reorders an epoch as transformers' LengthGroupedSampler: stretches of up to 50 batches are
/// sorted by descending length, and the longest sample comes first. Draw d has length lengths[d %
/// lengths.size()]; `batch` > 0.
std::vector<int64_t> grouped_by_length(std::vector<int64_t> draws,
                                       const std::vector<int64_t>& lengths, int64_t batch);

}  // namespace accel
