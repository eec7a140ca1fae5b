// The manifests of plugins, TOML: `plugin.toml`, which the author writes, and `FILE.so.toml`, which
// lies beside the built file and describes what is in it.
#pragma once

#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

/// `plugin.toml`: what the author says of a plugin.
struct PluginSource {
  std::string name;  ///< "vendor/name"
  std::string version;
  std::string licence;
  int64_t api = 0;                   ///< kPluginApi of the accel-run it was written for
  std::vector<std::string> sources;  ///< C++ files, relative to the manifest
  static Schema<PluginSource> schema();
};

/// An option of a component, as FieldInfo has it.
struct DescribedOption {
  std::string name, type, fallback, help, rule, json, kind;
  bool required = false;
  Change change = Change::kConsent;
  bool handled = false;
  std::vector<DescribedOption> fields;
  static Schema<DescribedOption> schema();
};

struct DescribedComponent {
  std::string kind, name, summary;
  std::vector<DescribedOption> options;
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

/// Both throw RecipeError with everything wrong, the manifest's file and lines named.
PluginSource read_plugin_source(const std::string& path);
PluginManifest read_plugin_manifest(const std::string& path);
std::string write_plugin_manifest(const PluginManifest& manifest);

/// All components of `registry`, in the order of kinds and names.
std::vector<DescribedComponent> describe_components(const Registry& registry);
/// The options as the registry tells of them.
ComponentInfo info_of(const DescribedComponent& component);

/// Whether a plugin or component may have this name: "vendor/name", each part of lower-case
/// letters, digits, '_', '-' and '.', a letter or digit first.
bool is_vendor_name(const std::string& name);
/// "vendor" of "vendor/name".
std::string vendor_of(const std::string& name);

}  // namespace accel
