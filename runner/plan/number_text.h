// Numbers as a plan shows them.
#pragma once

#include <cstdint>
#include <string>

namespace accel {

/// 1,234,567
std::string with_commas(int64_t value);

/// "512 B", "1.5 MiB", "12 GiB".
std::string bytes_text(int64_t bytes);

/// "1.2 GFLOP".
std::string flop_text(double flops);

}  // namespace accel
