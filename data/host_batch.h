// Samples stacked into one block of host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dataset.h"

namespace accel {

/// A micro-batch on the host. Its memory is its own, 64-byte aligned.
struct HostBatch {
  Array inputs;              ///< [samples, ...input of one sample]
  Array targets;             ///< [samples, ...target of one sample]; empty when samples have none
  std::vector<int64_t> ids;  ///< position of each sample in its dataset
};

/// Stacks `size` samples that come one at a time.
class Collator {
 public:
  explicit Collator(int64_t size);

  /// Copies one sample in. Throws DataError when its type or shape is not that of the first.
  void add(const Sample& sample, int64_t id);
  /// The batch, once `size` samples are in.
  HostBatch finish() && { return std::move(batch_); }

 private:
  void put(const char* part, const Array& value, Array& stack);

  int64_t size_;
  HostBatch batch_;
};

}  // namespace accel
