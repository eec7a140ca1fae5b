// Every flag of `accelerate launch`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/launch/accelerate_words.h"

namespace accel {

struct LaunchFlag {
  ForeignWord word;  ///< named with underscores, without dashes
  bool takes_value = true;
};

std::span<const LaunchFlag> launch_flags();

/// `name` with underscores and without dashes, or one letter. Null: Accelerate has no such flag.
const LaunchFlag* find_launch_flag(std::string_view name);

std::vector<std::string> launch_flag_names();

}  // namespace accel
