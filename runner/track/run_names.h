// Names and times that trackers give runs and files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accel {

double seconds_since_1970();
int64_t milliseconds_since_1970();

/// So many characters out of `alphabet`, from the system's random numbers: no run's own generator
/// is touched.
std::string random_name(size_t length, std::string_view alphabet);

/// 32 hex digits.
std::string random_hex32();

/// A metric's name as a path below a folder: no empty, "." or ".." part and no leading slash;
/// control characters and what is not UTF-8 become '_'.
std::string safe_path(std::string_view name);

}  // namespace accel
