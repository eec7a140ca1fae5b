// A config: a file that says where to run, as Accelerate writes it or as a piece of a recipe.
#pragma once

#include <string>
#include <vector>

#include "core/interpolate.h"
#include "core/node.h"

namespace accel {

/// A config as a layer under a recipe.
struct ConfigLayer {
  Node tree = {Node::Map{}, {}};
  std::vector<std::string> warnings;  ///< what has no effect, each with its place
  /// Where the file leaves the number of processes to others, who must give it; no source: it
  /// does not.
  Span processes_wanted;
};

/// Where Accelerate writes its config: `HF_HOME`, else `XDG_CACHE_HOME`/huggingface, else
/// ~/.cache/huggingface, and there accelerate/default_config.yaml. "" when there is no home.
std::string default_config_path(const Lookup& environment);

/// The config that Accelerate would read: that file, or the .json beside it. "" for none.
std::string find_default_config(const Lookup& environment);

/// Throws RecipeError when it cannot be read.
std::string config_file_text(const std::string& path);

/// The tree of a config, before anything is made of it. Throws RecipeError when it cannot be read,
/// or is no section.
Node parse_config(const std::string& path);

/// Whether the tree is a piece of a recipe, not a file of Accelerate's.
bool is_recipe_piece(const Node& tree);

/// Reads a config. Of a recipe it may have the sections `accelerator`, `checkpoint`, `log` and
/// `vars`. Of Accelerate's keys each is taken over, known to change nothing, or a problem. On the
/// CPU (`on_cpu`) a file for GPUs says how many ranks there are.
/// Throws RecipeError as parse_config; all else goes to `problems`.
ConfigLayer read_config(const std::string& path, bool on_cpu, Diagnostics& problems);

}  // namespace accel
