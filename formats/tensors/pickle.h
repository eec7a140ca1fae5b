// Python pickle as trees of plain values: the opcodes of protocols 2 and 4 in PyTorch's files.
// Nothing that a pickle names is ever called.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "formats/untrusted.h"

namespace accel {

/// A Python value.
struct Value {
  struct None {};
  struct List {
    std::vector<Value> items;
  };
  struct Tuple {
    std::vector<Value> items;
  };
  struct Dict {  ///< also OrderedDict; the last of equal keys counts
    std::vector<std::pair<Value, Value>> items;
  };
  struct Global {  ///< a class or function: {"torch", "FloatStorage"}
    std::string module;
    std::string name;
  };
  struct Call {  ///< an object, as the call that creates it
    Global callable;
    std::vector<Value> arguments;
    std::vector<Value> state = {};  ///< argument of __setstate__: none or one value
  };
  struct Persistent {  ///< a reference to data outside the pickle
    std::vector<Value> id;
  };

  std::variant<None, bool, int64_t, double, std::string, List, Tuple, Dict, Global, Call,
               Persistent, Array>
      data;

  Value() = default;
  template <class T>
  Value(T value) : data(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  Value(const char* text) : data(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  Value(int value) : data(int64_t{value}) {}            // NOLINT(google-explicit-constructor)

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  /// The value of a string key; null for a missing key and for other types.
  const Value* find(std::string_view key) const;
};

/// "torch.FloatStorage".
inline std::string full_name(const Value::Global& global) {
  return global.module + "." + global.name;
}

/// Writes the tree `value` without a memo. Throws std::invalid_argument for an Array: the caller
/// replaces those first.
std::string write_pickle(const Value& value, int protocol = 2);

/// Whether a pickle may name this class or function.
using GlobalFilter = std::function<bool(const Value::Global&)>;

/// Replaces a call by the value it stands for.
using CallReplacer = std::function<Value(Value::Call)>;

struct PickleRules {
  GlobalFilter allowed;
  int protocol = 2;           ///< the accepted protocol, 2 or 4
  bool keep_state = false;    ///< keep the state of objects
  CallReplacer replace = {};  ///< called for inner calls first; none keeps them
};

/// Reads one pickle that fills `bytes`; bytes objects are read as strings. The tree's memory is
/// charged to `budget`; what a call took is given back when an array replaces it. Throws
/// FormatError for unsupported opcodes, globals that are not allowed, cycles, and when the budget
/// is exceeded.
Value read_pickle(ByteSpan bytes, const PickleRules& rules, MemoryBudget& budget);
/// With a budget from the pickle's size.
Value read_pickle(ByteSpan bytes, const PickleRules& rules);

}  // namespace accel
