// What a pickle's opcodes leave behind: nodes that share parts and may even make circles.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <variant>
#include <vector>

#include "runner/formats/pickle.h"

namespace accel {

using PickleId = uint32_t;

/// A value whose parts are other nodes. Texts are views of the pickle.
struct PickleNode {
  struct List {};        ///< parts: the items
  struct Tuple {};       ///< parts: the items
  struct Dict {};        ///< parts: keys and values by turns
  struct Call {};        ///< parts: the callable, the tuple of arguments, and any state
  struct Persistent {};  ///< parts: the tuple that is the id
  struct Global {
    std::string_view module;
    std::string_view name;
  };

  std::variant<Value::None, bool, int64_t, double, std::string_view, List, Tuple, Dict, Call,
               Persistent, Global>
      data;
  std::vector<PickleId> parts;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
};

using PickleNodes = std::deque<PickleNode>;  // grows without a second copy of itself

/// Copies shared parts out, so that `root` becomes a tree. Throws FormatError for one that holds
/// itself or nests deeply, and when the budget is spent.
Value pickle_tree(const PickleNodes& nodes, PickleId root, MemoryBudget& budget);

}  // namespace accel
