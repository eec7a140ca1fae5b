// Graph of values that a pickle's opcodes build, with shared nodes and possible cycles.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tensors/pickle.h"

namespace accel {

using PickleId = uint32_t;

/// A value with references to its children. Strings are views of the pickle.
struct PickleNode {
  struct List {};        ///< children: the items
  struct Tuple {};       ///< children: the items
  struct Dict {};        ///< children: alternating keys and values
  struct Call {};        ///< children: callable, argument tuple, optional state
  struct Persistent {};  ///< children: the id tuple
  struct Global {
    std::string_view module;
    std::string_view name;
  };

  std::variant<Value::None, bool, int64_t, double, std::string_view, List, Tuple, Dict, Call,
               Persistent, Global>
      data;
  std::vector<PickleId> children;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
};

using PickleNodes = std::deque<PickleNode>;  // grows without reallocation

/// Expands `root` into a tree, with copies of shared nodes. Throws FormatError for cycles, deep
/// nesting, and when the budget is exceeded.
Value pickle_tree(const PickleNodes& nodes, PickleId root, MemoryBudget& budget);

}  // namespace accel
