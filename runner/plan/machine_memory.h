// How much memory there is to take.
#pragma once

#include <cstdint>
#include <string>

namespace accel {

/// Bytes that this process and its children may still take: what the machine has available, and
/// what their control groups leave. 0: not known. `root` stands before /proc and /sys.
int64_t available_memory(const std::string& root = "");

}  // namespace accel
