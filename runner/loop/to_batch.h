// Host batches as tensors.
#pragma once

#include <vector>

#include "core/batch.h"
#include "data/loader.h"

namespace accel {

/// Views of the same memory, which they keep alive: no copy on the CPU.
Batch to_batch(const HostBatch& host);

/// All micro-batches of a window.
std::vector<Batch> to_batches(const Window& window);

}  // namespace accel
