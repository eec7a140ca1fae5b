// What can be known of a plugin's file, and held against it, before any of its code runs.
#pragma once

#include <string>

#include "runner/plugin/manifest.h"

namespace accel {

/// The plugin's manifest, which lies beside it: FILE.so.toml.
std::string manifest_path(const std::string& plugin);

/// Throws Error (recipe) unless the file is a plugin that was built for this accel-run, on this
/// kind of machine, and nobody but its owner can change it.
void check_plugin_file(const std::string& path);

/// The same, and the manifest: Error as well unless it is there and is this very file's.
PluginManifest inspect_plugin(const std::string& path);

/// "accel-run plugin build FOLDER", to be said of a plugin that must be built anew.
std::string build_command(const std::string& plugin);

/// What plugins must have been built with: PluginAbi's text of this accel-run.
std::string abi_here();

}  // namespace accel
