// Arguments of an exported program's calls, made ready once so that a call only copies them.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <vector>

#include "runner/formats/pt2.h"

namespace accel {

/// The values of one run of a graph, by slot; behind them the device that it computes on.
using ValueTable = std::vector<c10::IValue>;

/// One argument of a call: a constant, a slot's value, or a list with slots in it.
class AtenOperand {
 public:
  /// As an operator wants it that declares the argument as `type`. Throws FormatError for an
  /// argument that is not of that type.
  AtenOperand(const Pt2Argument& argument, const c10::Type& type, int32_t list_size = 0);
  /// As it is, for what is no operator of ATen.
  explicit AtenOperand(const Pt2Argument& argument);
  /// The device of the run, which need not be the one that was exported.
  static AtenOperand device_of_run();
  /// A constant.
  explicit AtenOperand(c10::IValue constant) : value_(std::move(constant)) {}

  /// What the call is given.
  c10::IValue get(ValueTable& table) const;

  /// Null unless this is a constant.
  const c10::IValue* constant() const { return kind_ == Kind::kConstant ? &value_ : nullptr; }
  /// The slots it reads, in order.
  void add_slots(std::vector<size_t>& out) const;
  /// Has the last use of `slot` in here leave it empty. Returns whether it is used at all.
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

/// libtorch's number for an enumerator. Throws FormatError for one that it does not have.
int64_t aten_code(const Pt2Code& code);

}  // namespace accel
