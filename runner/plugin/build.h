// Creation of plugins from the example of their kind, and their compilation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/plugin/manifest.h"

namespace accel {

/// Kinds with an example in `examples`, sorted.
std::vector<std::string> example_kinds(const std::string& examples);

struct NewPlugin {
  std::string kind;
  std::string name;     ///< "vendor/name"
  std::string folder;   ///< must not exist yet
  std::string program;  ///< path of the accel-run that test.sh runs
};

/// Copies the example of the kind to the folder under the new name. Returns the files. Throws
/// Error (recipe) for an invalid kind or name.
std::vector<std::string> new_plugin(const std::string& examples, const NewPlugin& wanted);

/// "my_net" and "MyNet" for "acme/my-net": names of its files and classes.
std::string identifier_of(const std::string& name);
std::string class_name_of(const std::string& name);

/// Compiler and headers of a plugin build.
struct PluginTools {
  std::string compiler;               ///< a path, or a name in PATH
  std::string sdk;                    ///< contains core/ and plugin_entry.cpp
  std::vector<std::string> includes;  ///< libtorch's include folders
};

/// The tools of the build tree or installation of the executable in `bin`. `compiler` replaces the
/// compiler of accel-run. Throws Error without the SDK.
PluginTools find_plugin_tools(const std::string& bin, const std::optional<std::string>& compiler);

/// The command that compiles the plugin in `folder` to `output`.
std::vector<std::string> compile_command(const PluginTools& tools, const PluginSource& source,
                                         const std::string& folder, const std::string& output);

struct BuiltPlugin {
  std::string path;
  PluginManifest manifest;
};

/// Compiles the plugin of `folder`/plugin.toml to NAME.so there (identifier_of()), loads it once
/// and writes its manifest; an older build stays until both are done. The compiler writes to
/// standard error. libtorch must be loaded. Throws Error (recipe).
BuiltPlugin build_plugin(const std::string& folder, const PluginTools& tools);

/// Loads the plugin at `path`, built by another build system, and writes its manifest from the
/// plugin.toml at `source`. Throws as build_plugin() does.
BuiltPlugin describe_plugin(const std::string& path, const std::string& source);

}  // namespace accel
