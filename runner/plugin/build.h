// From the source of a plugin to a file that can be loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/plugin/manifest.h"

namespace accel {

/// What a plugin is compiled with.
struct PluginTools {
  std::string compiler;               ///< a path or a name to be looked for
  std::string sdk;                    ///< has core/ and plugin_entry.cpp
  std::vector<std::string> includes;  ///< libtorch's folders of headers
};

/// Those beside the executable in `bin`, in the build tree or installed. `compiler` replaces the
/// one accel-run was built with. Throws Error when the SDK is not there.
PluginTools find_plugin_tools(const std::string& bin, const std::optional<std::string>& compiler);

/// The command that makes `output` of the sources of the plugin in `folder`.
std::vector<std::string> compile_command(const PluginTools& tools, const PluginSource& source,
                                         const std::string& folder, const std::string& output);

struct BuiltPlugin {
  std::string path;
  PluginManifest manifest;
};

/// Compiles the plugin whose plugin.toml is in `folder` to NAME.so there, as identifier_of() has
/// it, loads it once and writes its manifest; what was there before stays until both are done. The
/// compiler's messages go to standard error. libtorch must be loaded. Throws Error (recipe).
BuiltPlugin build_plugin(const std::string& folder, const PluginTools& tools);

/// Loads the plugin at `path`, which something else has built, and writes its manifest beside it
/// after the plugin.toml at `source`. Throws as build_plugin() does.
BuiltPlugin describe_plugin(const std::string& path, const std::string& source);

}  // namespace accel
