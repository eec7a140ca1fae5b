// Python's pickle as trees of plain values: the parts of protocols 2 and 4 that PyTorch's files
// use. Nothing that a pickle names is ever called.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/array.h"
#include "runner/formats/bytes.h"
#include "runner/formats/memory_budget.h"

namespace accel {

/// A value of Python's.
struct Value {
  struct None {};
  struct List {
    std::vector<Value> items;
  };
  struct Tuple {
    std::vector<Value> items;
  };
  struct Dict {  ///< also OrderedDict; a later key replaces an equal earlier one
    std::vector<std::pair<Value, Value>> items;
  };
  struct Global {  ///< a class or function: {"torch", "FloatStorage"}
    std::string module;
    std::string name;
  };
  struct Call {  ///< an object, as the call that makes it
    Global callable;
    std::vector<Value> arguments;
    std::vector<Value> state = {};  ///< what is set on it afterwards: nothing, or one value
  };
  struct Persistent {  ///< something kept outside the pickle
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
  /// The value of a text key; null when this is no dict or has no such key.
  const Value* find(std::string_view key) const;
};

/// Writes without a memo, so that `value` is written as the tree it is. Throws
/// std::invalid_argument for an Array: the caller says how those are kept.
std::string write_pickle(const Value& value, int protocol = 2);

/// Whether a pickle may name this class or function.
using GlobalFilter = std::function<bool(const Value::Global&)>;

struct PickleRules {
  GlobalFilter allowed;
  int protocol = 2;         ///< the only one that is read, 2 or 4
  bool keep_state = false;  ///< of objects; it is dropped otherwise
};

/// Reads one pickle that fills `bytes`; texts and bytes are both texts. What the tree takes is
/// taken from `budget`. Throws FormatError for an opcode outside the protocol's plain ones, a
/// global that is not allowed, a value that holds itself, and when the budget is spent.
Value read_pickle(ByteSpan bytes, const PickleRules& rules, MemoryBudget& budget);
/// With a budget by the pickle's own size.
Value read_pickle(ByteSpan bytes, const PickleRules& rules);

}  // namespace accel
