// Names of plugins and their components, and the identity of a plugin in checkpoints.
#pragma once

#include <string>

namespace accel {

struct PluginIdentity {
  std::string name;
  std::string version;
  std::string sha256;
};

/// Whether the name of a plugin or component is valid: "vendor/name", both of lower-case letters,
/// digits, '_', '-' and '.', with a letter or digit first.
bool is_vendor_name(const std::string& name);
/// "vendor" of "vendor/name".
std::string vendor_of(const std::string& name);

}  // namespace accel
