// Backends of collectives of CPU tensors.
#pragma once

namespace accel {

/// kAuto: kSharedMemory in groups whose ranks run on one machine, else kGloo.
enum class CpuBackend { kAuto, kSharedMemory, kGloo };

}  // namespace accel
