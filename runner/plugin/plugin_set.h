// The plugins of a recipe, and the components there are with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/registry.h"
#include "runner/plugin/manifest.h"

namespace accel {

/// What a checkpoint knows a plugin by.
struct PluginIdentity {
  std::string name;
  std::string version;
  std::string sha256;
};

/// Enters a component that is known by its description alone.
using EnterDescribed = void (*)(const DescribedComponent&, Registry&);

/// Components of this binary and of plugins. A loaded plugin stays in the process.
class PluginSet {
 public:
  /// With `describe`, plugins are known by their manifests and none of their code runs; without
  /// it they are loaded, and libtorch must be there.
  explicit PluginSet(Registry built_in, EnterDescribed describe = nullptr)
      : registry_(std::move(built_in)), describe_(describe) {}

  /// Checks a plugin and enters its components. Throws Error (recipe): it is not there, not a
  /// plugin, built for another accel-run, changed since it was built, refused by the loader, or it
  /// brings a name that is there already.
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

/// Loads a plugin into this process and tells its components. It needs no manifest yet. Throws
/// Error (recipe).
std::vector<DescribedComponent> load_and_describe(const std::string& path);

}  // namespace accel
