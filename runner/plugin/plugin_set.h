// The plugins of a recipe: checks of their files before any code runs, and their components.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/recipe/registry.h"
#include "runner/plugin/manifest.h"

namespace accel {

/// The path of the manifest: FILE.so.toml.
std::string manifest_path(const std::string& plugin);

/// Throws Error (recipe) unless the file is a plugin for this accel-run and this architecture that
/// only its owner can write.
void check_plugin_file(const std::string& path);

/// The same, and returns the manifest. Throws Error when it is missing or of another file.
PluginManifest inspect_plugin(const std::string& path);

/// "accel-run plugin build FOLDER", for hints.
std::string build_command(const std::string& plugin);

/// The ABI that plugins need: PluginAbi's text of this accel-run.
std::string abi_here();

/// Registers a described component: enter_described().
using EnterDescribed = void (*)(const DescribedComponent&, Registry&);

/// Components of this binary and of plugins. A loaded plugin stays in the process.
class PluginSet {
 public:
  /// With `describe`, only the manifests of plugins are read; without it they are loaded, which
  /// needs libtorch.
  explicit PluginSet(Registry built_in, EnterDescribed describe = nullptr)
      : registry_(std::move(built_in)), describe_(describe) {}

  /// Checks a plugin and registers its components. Throws Error (recipe) when it is missing, not a
  /// plugin, built for another accel-run, changed since its build, rejected by the loader, or
  /// registers an existing name.
  void add(const std::string& path);

  const Registry& registry() const { return registry_; }
  const std::vector<PluginIdentity>& identities() const { return identities_; }

 private:
  void check_names(const std::string& path, const PluginManifest& manifest);

  Registry registry_;
  EnterDescribed describe_;
  std::vector<PluginIdentity> identities_;
  std::map<std::string, std::string> owners_;  ///< "model acme/net" to the plugin's file
};

/// Loads a plugin, which needs no manifest yet, and describes its components. Throws Error
/// (recipe).
std::vector<DescribedComponent> load_and_describe(const std::string& path);

}  // namespace accel
