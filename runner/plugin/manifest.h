// Manifests of plugins in TOML: `plugin.toml`, written by the author, and `FILE.so.toml`, which
// describes the components of the built file.
#pragma once

#include <string>
#include <vector>

#include "core/api/plugin_identity.h"
#include "core/recipe/registry.h"

namespace accel {

bool is_reserved_vendor(const std::string& vendor);

inline constexpr auto kReservedVendor = "the vendor 'accel' is reserved for accel-run";
inline constexpr auto kReservedVendorHint = "use another vendor, such as your company or user name";

/// `plugin.toml`.
struct PluginSource {
  std::string name;  ///< "vendor/name"
  std::string version;
  std::string licence;
  int64_t api = 0;                   ///< kPluginApi of the accel-run it was written for
  std::vector<std::string> sources;  ///< C++ files, relative to the manifest
  static Schema<PluginSource> schema();
};

/// The fields of OptionHint.
struct DescribedHint {
  std::string name, value;
  static Schema<DescribedHint> schema();
};

/// An option of a component: the fields of FieldInfo.
struct DescribedOption {
  std::string name, type, fallback, help, rule, json, kind;
  bool required = false;
  Change change = Change::kConsent;
  bool handled = false;
  std::vector<DescribedOption> fields;
  std::string renamed_from;
  std::vector<DescribedHint> hints;
  static Schema<DescribedOption> schema();
};

struct DescribedComponent {
  std::string kind, name, summary;
  std::vector<DescribedOption> options;
  std::string renamed_from = {};
  std::string hint_for = {};  ///< names, separated by spaces
  static Schema<DescribedComponent> schema();
};

/// `FILE.so.toml`.
struct PluginManifest {
  std::string name, version, licence;
  int64_t api = 0;
  std::string sha256;  ///< of the file, 64 hex digits
  std::vector<DescribedComponent> components;
  static Schema<PluginManifest> schema();
};

/// Both throw RecipeError with all errors at their lines of the manifest.
PluginSource read_plugin_source(const std::string& path);
PluginManifest read_plugin_manifest(const std::string& path);
std::string write_plugin_manifest(const PluginManifest& manifest);

/// All components of `registry`, in the order of kinds and names.
std::vector<DescribedComponent> describe_components(const Registry& registry);
/// The options as the registry lists them.
ComponentInfo info_of(const DescribedComponent& component);

}  // namespace accel
