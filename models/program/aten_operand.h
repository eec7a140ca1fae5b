// Arguments of an exported program's calls, prepared once, and Python's scalar operators.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <string>
#include <vector>

#include "formats/program/pt2.h"

namespace accel {

/// Replaces the arguments on the stack by the result.
using PythonFunction = void (*)(std::vector<c10::IValue>& stack);

/// By qualified name, "_operator.floordiv"; null if not supported.
PythonFunction python_function(const std::string& name);

/// The values of one run of a graph, by slot, followed by the device of the run.
using ValueTable = std::vector<c10::IValue>;

/// One argument of a call: a constant, a slot, or a list with slots.
class AtenOperand {
 public:
  /// An argument declared as `type` by the operator. Throws FormatError for an argument of another
  /// type.
  AtenOperand(const Pt2Argument& argument, const c10::Type& type, int32_t list_size = 0);
  /// An argument of a function that is not an ATen operator.
  explicit AtenOperand(const Pt2Argument& argument);
  /// The device of the run, which may differ from the exported one.
  static AtenOperand device_of_run();
  /// A constant.
  explicit AtenOperand(c10::IValue constant) : value_(std::move(constant)) {}

  /// The value for the call.
  c10::IValue get(ValueTable& table) const;

  /// Null unless this is a constant.
  const c10::IValue* constant() const { return kind_ == Kind::kConstant ? &value_ : nullptr; }
  /// The slots it reads, in order.
  void add_slots(std::vector<size_t>& out) const;
  /// Makes the last use of `slot` in here clear it. Returns whether the slot is used.
  bool take(size_t slot);

 private:
  enum class Kind { kConstant, kSlot, kTensor, kList, kDevice };

  AtenOperand() = default;

  void read(const Pt2Argument& argument, const c10::Type& type, int32_t list_size);
  bool reads_slot() const { return kind_ == Kind::kSlot || kind_ == Kind::kTensor; }
  void read_list(const Pt2Argument::List& items, const c10::Type& type);

  Kind kind_ = Kind::kConstant;
  bool takes_ = false;
  size_t slot_ = 0;
  c10::IValue value_;
  c10::TypePtr element_;  ///< of a list
  std::vector<AtenOperand> items_;
};

/// libtorch's number of an enumerator. Throws FormatError for an unknown one.
int64_t aten_code(const Pt2Code& code);

}  // namespace accel
