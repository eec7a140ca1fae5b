// Samples of similar length in the same batch, so that little of it is fill.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dataset.h"

namespace accel {

/// Beside Dataset, for those that know how long samples are without reading them.
class KnowsLengths {
 public:
  virtual ~KnowsLengths() = default;
  /// False for one that is made of others which do not.
  virtual bool lengths_known() const { return true; }
  /// Tokens of sample `index`.
  virtual int64_t length(int64_t index) const = 0;
};

/// The lengths of all samples; empty where `dataset` does not know them.
std::vector<int64_t> lengths_of(const Dataset& dataset);

/// An epoch's order, rearranged as transformers' LengthGroupedSampler does: cut into stretches of
/// up to 50 batches, each of them sorted from long to short, and the longest sample of all put
/// first. Draw d has lengths[d % lengths.size()]; `batch` > 0.
std::vector<int64_t> grouped_by_length(std::vector<int64_t> draws,
                                       const std::vector<int64_t>& lengths, int64_t batch);

}  // namespace accel
