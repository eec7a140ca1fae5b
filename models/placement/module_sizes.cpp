#include "models/placement/module_sizes.h"

namespace accel {

std::string full_name(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : parent + "." + name;
}

std::vector<NamedModule> parts_of(const NamedModule& module) {
  std::vector<NamedModule> parts;
  for (const auto& tensor : module.module->parameters) {
    parts.push_back({full_name(module.name, tensor.name), nullptr});
  }
  for (const auto& [name, child] : module.module->children) {
    parts.push_back({full_name(module.name, name), &child});
  }
  return parts;
}

ModuleSizes::ModuleSizes(const ModuleTree& root) {
  add_all(root, "", true);
  add_all(root, "", false);
}

int64_t ModuleSizes::of(const std::string& name) const {
  const auto found = bytes_.find(name);
  return found == bytes_.end() ? 0 : found->second;
}

void ModuleSizes::add(const std::string& tensor, int64_t bytes) {
  const auto add_to = [&](const std::string& name) {
    const auto [place, is_new] = bytes_.try_emplace(name, 0);
    place->second += bytes;
    if (is_new) names_.push_back(name);
  };
  add_to("");
  for (size_t dot = tensor.find('.'); dot != tensor.npos; dot = tensor.find('.', dot + 1)) {
    add_to(tensor.substr(0, dot));
  }
  add_to(tensor);
}

void ModuleSizes::add_all(const ModuleTree& module, const std::string& name, bool parameters) {
  for (const auto& tensor : parameters ? module.parameters : module.buffers) {
    if (!tensor.is_alias) add(full_name(name, tensor.name), tensor.bytes);
  }
  for (const auto& [part, child] : module.children) {
    add_all(child, full_name(name, part), parameters);
  }
}

int64_t buffer_bytes(const ModuleTree& module) {
  int64_t bytes = 0;
  for (const auto& tensor : module.buffers) bytes += tensor.bytes;
  for (const auto& [name, child] : module.children) bytes += buffer_bytes(child);
  return bytes;
}

}  // namespace accel
