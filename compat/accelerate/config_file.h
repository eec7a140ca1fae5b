// Configs: where to run, in Accelerate's format or as sections of a recipe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/accelerate/parse_config.h"
#include "core/recipe/interpolate.h"
#include "core/recipe/node.h"

namespace accel {

/// Keys at the top of the file. `distributed_type` and `num_processes` are read by config_file.h.
std::span<const CompatKey> config_keys();

/// Keys of the section `name`; empty for unsupported sections.
std::span<const CompatKey> config_section_keys(std::string_view name);

/// Values of `distributed_type`, supported or not.
std::vector<std::string> config_distributed_types();

/// A config as a layer under a recipe.
struct ConfigLayer {
  Node tree = {Node::Map{}, {}};
  std::vector<std::string> warnings;  ///< keys without effect, with their locations
  std::vector<std::string> remarks;   ///< differences to Accelerate that it does not report
  /// The location of a missing or unset number of processes, which other layers must set; no
  /// source: it is set.
  Span processes_wanted;
};

/// Path of Accelerate's config: accelerate/default_config.yaml in `HF_HOME`, else
/// `XDG_CACHE_HOME`/huggingface, else ~/.cache/huggingface. "" without a home.
std::string default_config_path(const EnvironmentLookup& environment);

/// The existing default config: that file, or the .json beside it. "" for none.
std::string find_default_config(const EnvironmentLookup& environment);

/// Whether the tree has sections of a recipe, not keys of Accelerate.
bool is_recipe_piece(const Node& tree);

/// Converts a config. As a recipe it may have the sections `accelerator`, `checkpoint`, `log`,
/// `submit` and `vars`. Each key of Accelerate is converted, a warning, or an error. With `on_cpu`
/// a config for GPUs sets the number of ranks on the CPU. Throws RecipeError as parse_config();
/// other errors go to `problems`.
ConfigLayer read_config(const std::string& path, bool on_cpu, Diagnostics& problems);

}  // namespace accel
