// Graph of values that a pickle's opcodes build, with shared nodes and possible cycles. It is
// compact: a checkpoint of many small tensors has a dozen nodes for each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tensors/pickle.h"

namespace accel {

using PickleId = uint32_t;

/// A value with references to its children.
struct PickleNode {
  struct Text {
    uint32_t index;  ///< in PickleGraph::texts
  };
  struct List {
    uint32_t index;  ///< in PickleGraph::items
  };
  struct Dict {      ///< alternating keys and values
    uint32_t index;  ///< in PickleGraph::items
  };
  struct Tuple {
    uint32_t first, count;  ///< in PickleGraph::members
  };
  struct Global {
    uint32_t module;  ///< in PickleGraph::texts, where the name follows
  };
  struct Call {
    uint32_t first;  ///< in PickleGraph::members: callable, argument tuple, state or kNoState
  };
  struct Persistent {
    PickleId tuple;
  };

  std::variant<Value::None, bool, int64_t, double, Text, List, Dict, Tuple, Global, Call,
               Persistent>
      data;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
};
static_assert(sizeof(PickleNode) == 16);

/// Deques grow without reallocation.
struct PickleGraph {
  static constexpr PickleId kNoState = UINT32_MAX;

  std::deque<PickleNode> nodes;
  std::deque<std::string_view> texts;       ///< views of the pickle
  std::deque<std::vector<PickleId>> items;  ///< of lists and dicts
  std::deque<PickleId> members;             ///< of tuples and calls
};

/// Expands `root` into a tree, with copies of shared nodes, and replaces calls as `rules` says.
/// Throws FormatError for cycles, deep nesting, and when the budget is exceeded.
Value pickle_tree(const PickleGraph& graph, PickleId root, const PickleRules& rules,
                  MemoryBudget& budget);

}  // namespace accel
