// Host batches as tensors.
#pragma once

#include <vector>

#include "core/batch.h"
#include "data/loader.h"

namespace accel {

/// Views of the same memory, which they keep alive: no copy on the CPU. Another device gets copies,
/// which are under way when this returns.
Batch to_batch(const HostBatch& host, at::Device device = at::kCPU);

/// All micro-batches of a window. Their list is memory that the thread's next window uses again;
/// the tensors may live on.
class WindowBatches {
 public:
  explicit WindowBatches(const Window& window, at::Device device = at::kCPU);
  ~WindowBatches();
  WindowBatches(const WindowBatches&) = delete;
  WindowBatches& operator=(const WindowBatches&) = delete;

  const std::vector<Batch>& list() const { return list_; }

 private:
  std::vector<Batch> list_;
};

}  // namespace accel
