#include "runner/plugin/plugin_set.h"

#include <algorithm>
#include <filesystem>

#include "runner/plugin/plugin_file.h"
#include "runner/plugin/shared_object.h"

namespace accel {
namespace {

/// Names as the manifest would have them.
void check_vendor(const std::string& path, const std::string& kind, const std::string& name,
                  const std::string& vendor) {
  if (is_vendor_name(name) && (vendor.empty() || vendor_of(name) == vendor)) return;
  throw Error(ExitCode::kRecipe,
              "plugin '" + path + "' brings the " + kind + " '" + name + "', which is not named '" +
                  (vendor.empty() ? "vendor" : vendor) + "/...'",
              "give it another kName");
}

}  // namespace

void PluginSet::check_names(const std::string& path, const PluginManifest& manifest) {
  const std::string plugin = "plugin '" + path + "'";
  for (const auto& known : identities_) {
    if (known.name != manifest.name) continue;
    throw Error(ExitCode::kRecipe, plugin + " is named '" + manifest.name + "', as another one is",
                "leave one of the two out");
  }
  for (const DescribedComponent& component : manifest.components) {
    check_vendor(path, component.kind, component.name, vendor_of(manifest.name));
    std::string what = component.kind;
    what.append(" '").append(component.name).append("'");
    const auto [owner, entered] = owners_.emplace(what, plugin);
    std::string other = entered ? "" : owner->second;
    for (const CatalogIndex* catalog : registry_.all()) {
      if (other.empty() && catalog->kind() == component.kind &&
          catalog->items().contains(component.name)) {
        other = "accel-run itself";
      }
    }
    if (other.empty()) continue;
    throw Error(ExitCode::kRecipe,
                plugin + " brings the " + what.append(", which ").append(other) + " has already",
                "leave one of the two out, or rename the component");
  }
}

void PluginSet::add(const std::string& path) {
  const PluginManifest manifest = inspect_plugin(path);
  check_names(path, manifest);
  if (!describe_) enter_plugin(path, registry_);
  for (const DescribedComponent& component : manifest.components) {
    if (describe_) describe_(component, registry_);
  }
  identities_.push_back({manifest.name, manifest.version, manifest.sha256});
}

std::vector<DescribedComponent> load_and_describe(const std::string& path) {
  check_plugin_file(path);
  Registry registry;
  enter_plugin(path, registry);
  std::vector<DescribedComponent> components = describe_components(registry);
  if (components.empty()) {
    throw Error(ExitCode::kRecipe, "plugin '" + path + "' brings no component",
                "end its source with 'const Register<T> name;'");
  }
  for (const DescribedComponent& component : components) {
    check_vendor(path, component.kind, component.name, {});
  }
  return components;
}

}  // namespace accel
