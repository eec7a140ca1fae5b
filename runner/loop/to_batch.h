// Host batches as tensors.
#pragma once

#include <vector>

#include "core/batch.h"
#include "data/loader.h"

namespace accel {

/// Views of the same memory, which they keep alive: no copy on the CPU. Another device gets copies,
/// which are under way when this returns.
Batch to_batch(const HostBatch& host, at::Device device = at::kCPU);

/// All micro-batches of a window.
std::vector<Batch> to_batches(const Window& window, at::Device device = at::kCPU);

}  // namespace accel
