// Standard output of another program.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace accel {

/// The standard output of the program argv[0], searched in PATH and started without a shell; its
/// standard error is discarded. None if it cannot be started, fails, or takes longer than `limit`,
/// after which it is killed. Output beyond 64 KiB is cut off.
std::optional<std::string> command_output(const std::vector<std::string>& argv,
                                          std::chrono::milliseconds limit);

}  // namespace accel
