// The tree of a model's modules with the bytes of their tensors, for placement on devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

struct ModuleTree {
  struct Tensor {
    std::string name;
    int64_t bytes = 0;
    /// A later name of a tied parameter, which has no bytes of its own.
    bool is_alias = false;
  };
  std::string type;                ///< its class
  std::vector<Tensor> parameters;  ///< of this module alone, in the order of registration
  std::vector<Tensor> buffers;     ///< likewise
  struct Child;
  std::vector<Child> children;
};

struct ModuleTree::Child {
  std::string name;
  ModuleTree module;
};

/// A model's modules, and the groups of full names of each tied parameter.
struct PlacedModel {
  ModuleTree root;
  std::vector<std::vector<std::string>> tied;
  /// Classes of modules that are placed as a whole.
  std::vector<std::string> no_split_module_classes;
};

}  // namespace accel
