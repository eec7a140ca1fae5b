// Bytes of each module and tensor of a model by full name.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/placement/module_tree.h"

namespace accel {

/// A module, or with `module` null a tensor, and its full name.
struct NamedModule {
  std::string name;
  const ModuleTree* module = nullptr;

  bool has_children() const { return module && !module->children.empty(); }
};

/// The full name of `name` in the module `parent`; "": the model.
std::string full_name(const std::string& parent, const std::string& name);

/// The module's own parameters, then its children.
std::vector<NamedModule> parts_of(const NamedModule& module);

/// Bytes by name, parents included; aliases of tied parameters have none.
class ModuleSizes {
 public:
  explicit ModuleSizes(const ModuleTree& root);

  /// 0 for names that it lacks.
  int64_t of(const std::string& name) const;
  int64_t total() const { return of(""); }
  /// In the order of the first tensor, parameters before buffers, parents before their parts.
  const std::vector<std::string>& names() const { return names_; }

 private:
  void add(const std::string& tensor, int64_t bytes);
  void add_all(const ModuleTree& module, const std::string& name, bool parameters);

  std::vector<std::string> names_;
  std::unordered_map<std::string, int64_t> bytes_;
};

/// The bytes of the buffers in a module.
int64_t buffer_bytes(const ModuleTree& module);

}  // namespace accel
