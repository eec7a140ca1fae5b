// Command line of `accel-run launch`, with all flags of `accelerate launch`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/sharding/sharding_keys.h"
#include "core/recipe/node.h"

namespace accel {

struct LaunchFlag {
  CompatKey word;  ///< named with underscores, without dashes
  bool takes_value = true;
  const ShardingFamily* family = nullptr;  ///< of an option or a switch of sharding
};

std::span<const LaunchFlag> launch_flags();

/// By name with underscores and without dashes, or one letter. Null for an unknown flag.
const LaunchFlag* find_launch_flag(std::string_view name);

std::vector<std::string> launch_flag_names();

/// The arguments after `launch`.
struct LaunchLine {
  std::string config_file;  ///< --config_file; "" for none
  bool on_cpu = false;      ///< --cpu, which disables the default config as in Accelerate
  bool help = false;
  Node flags = {Node::Map{}, {}};  ///< flags as a layer over the recipe
  std::string recipe;
  int first_override = 0;              ///< position of the first argument after the recipe
  std::vector<std::string> overrides;  ///< arguments after the recipe
  std::vector<std::string> warnings;   ///< flags without effect
};

/// Parses `words`, which start at position `first` of the command line. Flags have hyphens or
/// underscores, with the value after `=` or as the next word, and precede the recipe. Unknown and
/// unsupported flags go to `problems`.
LaunchLine read_launch_line(const std::vector<std::string>& words, int first,
                            Diagnostics& problems);

/// The supported flags with their options.
std::string launch_help();

}  // namespace accel
