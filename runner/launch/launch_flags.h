// The flags of `accelerate launch`, and which option of a recipe each is.
#pragma once

#include <string>
#include <vector>

#include "core/node.h"

namespace accel {

/// What stands on the command line behind `launch`.
struct LaunchLine {
  std::string config_file;  ///< of --config_file; "" for none
  bool on_cpu = false;      ///< --cpu: as with Accelerate, no default config is read then
  bool help = false;
  Node flags = {Node::Map{}, {}};  ///< what flags say, a layer over the recipe
  std::string recipe;
  int first_override = 0;              ///< position of the first word behind the recipe
  std::vector<std::string> overrides;  ///< all words behind the recipe
  std::vector<std::string> warnings;   ///< flags without effect
};

/// Reads `words`, of which the first has the position `first` on the command line. A flag is
/// spelt with hyphens or underscores, its value behind `=` or the next word; all flags come before
/// the recipe. What is unknown or not supported goes to `problems`.
LaunchLine read_launch_line(const std::vector<std::string>& words, int first,
                            Diagnostics& problems);

/// A line for each flag that is supported: its name and what it sets.
std::string launch_help();

}  // namespace accel
