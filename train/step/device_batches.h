// Host batches as tensors on a device.
#pragma once

#include <vector>

#include "core/api/batch.h"
#include "data/loader/loader.h"

namespace accel {

/// Views of the batch's memory, which they keep alive, on the CPU; asynchronous copies on another
/// device.
Batch to_batch(const HostBatch& host, at::Device device = at::kCPU);

/// The first `rows` samples: views.
Batch first_rows(const Batch& batch, int64_t rows);

/// All micro-batches of a global batch. The thread's next global batch reuses the memory of the
/// list; tensors may outlive it.
class DeviceBatches {
 public:
  explicit DeviceBatches(const GlobalBatch& global_batch, at::Device device = at::kCPU);
  ~DeviceBatches();
  DeviceBatches(const DeviceBatches&) = delete;
  DeviceBatches& operator=(const DeviceBatches&) = delete;

  /// Drops the repeated samples at the end of micro-batches, but not of those without others.
  void drop_repeated(const GlobalBatch& global_batch);

  const std::vector<Batch>& list() const { return list_; }

 private:
  std::vector<Batch> list_;
};

}  // namespace accel
