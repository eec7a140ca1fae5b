#include "models/program/aten_operand.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;

double real(const IValue& value) {
  if (value.isBool()) return value.toBool() ? 1.0 : 0.0;
  return value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
}

int64_t whole(const IValue& value) {
  if (value.isBool()) return value.toBool() ? 1 : 0;
  return value.isDouble() ? static_cast<int64_t>(value.toDouble()) : value.toInt();
}

void leave(Values& stack, IValue result) {
  stack.clear();
  stack.push_back(std::move(result));
}

/// Integers stay integers, as in Python.
template <class Function>
void arithmetic(Values& stack) {
  if (stack.at(0).isDouble() || stack.at(1).isDouble()) {
    leave(stack, static_cast<double>(Function{}(real(stack[0]), real(stack[1]))));
  } else {
    leave(stack, static_cast<int64_t>(Function{}(whole(stack[0]), whole(stack[1]))));
  }
}

template <class Function>
void comparison(Values& stack) {
  if (stack.at(0).isDouble() || stack.at(1).isDouble()) {
    leave(stack, Function{}(real(stack[0]), real(stack[1])));
  } else {
    leave(stack, Function{}(whole(stack[0]), whole(stack[1])));
  }
}

template <class Function>
void bits(Values& stack) {
  if (stack.at(0).isBool() && stack.at(1).isBool()) {
    leave(stack, Function{}(stack[0].toBool(), stack[1].toBool()) != 0);
  } else {
    leave(stack, static_cast<int64_t>(Function{}(whole(stack[0]), whole(stack[1]))));
  }
}

/// Rounds toward negative infinity; `a - b * quotient` has the sign of b.
struct FloorDivide {
  double operator()(double a, double b) const { return std::floor(a / b); }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b == 0) throw Error(ExitCode::kRecipe, "the exported program divides a size by zero");
    const int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  }
};

struct Modulo {
  template <class T>
  T operator()(T a, T b) const {
    return a - b * FloorDivide{}(a, b);
  }
};

struct Power {
  double operator()(double a, double b) const { return std::pow(a, b); }
  int64_t operator()(int64_t a, int64_t b) const {
    int64_t out = 1;
    for (int64_t i = 0; i < b; ++i) out *= a;
    return out;
  }
};

struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};

struct ShiftLeft {
  int64_t operator()(int64_t a, int64_t b) const { return a * Power{}(2, b); }
};

struct ShiftRight {
  int64_t operator()(int64_t a, int64_t b) const { return FloorDivide{}(a, Power{}(2, b)); }
};

void negative(Values& stack) {
  const IValue value = stack.at(0);
  leave(stack, value.isDouble() ? IValue(-value.toDouble()) : IValue(-whole(value)));
}

void chosen(Values& stack) {
  leave(stack, stack.at(0).toBool() ? stack.at(1) : stack.at(2));
}

const std::map<std::string, PythonFunction> kFunctions = {
    {"_operator.add", &arithmetic<std::plus<>>},
    {"_operator.sub", &arithmetic<std::minus<>>},
    {"_operator.mul", &arithmetic<std::multiplies<>>},
    {"_operator.floordiv", &arithmetic<FloorDivide>},
    {"_operator.mod", &arithmetic<Modulo>},
    {"_operator.pow", &arithmetic<Power>},
    {"_operator.truediv", [](Values& s) { leave(s, real(s.at(0)) / real(s.at(1))); }},
    {"_operator.eq", &comparison<std::equal_to<>>},
    {"_operator.ne", &comparison<std::not_equal_to<>>},
    {"_operator.lt", &comparison<std::less<>>},
    {"_operator.le", &comparison<std::less_equal<>>},
    {"_operator.gt", &comparison<std::greater<>>},
    {"_operator.ge", &comparison<std::greater_equal<>>},
    {"_operator.and_", &bits<std::bit_and<>>},
    {"_operator.or_", &bits<std::bit_or<>>},
    {"_operator.lshift", &bits<ShiftLeft>},
    {"_operator.rshift", &bits<ShiftRight>},
    {"_operator.neg", &negative},
    {"_operator.pos", [](Values& s) { leave(s, s.at(0)); }},
    {"math.trunc", [](Values& s) { leave(s, whole(s.at(0))); }},
    {"torch.sym_int", [](Values& s) { leave(s, whole(s.at(0))); }},
    {"torch.sym_float", [](Values& s) { leave(s, real(s.at(0))); }},
    {"torch.sym_not", [](Values& s) { leave(s, !s.at(0).toBool()); }},
    {"torch.sym_ite", &chosen},
    {"torch.sym_max", &arithmetic<Larger>},
    {"torch.sym_min", &arithmetic<Smaller>},
    {"torch._sym_sqrt", [](Values& s) { leave(s, std::sqrt(real(s.at(0)))); }},
};

}  // namespace

PythonFunction python_function(const std::string& name) {
  const auto found = kFunctions.find(name);
  return found == kFunctions.end() ? nullptr : found->second;
}

namespace {

using c10::TypeKind;

constexpr std::array kScalarTypes = {
    std::pair(1, at::kByte),           std::pair(2, at::kChar),
    std::pair(3, at::kShort),          std::pair(4, at::kInt),
    std::pair(5, at::kLong),           std::pair(6, at::kHalf),
    std::pair(7, at::kFloat),          std::pair(8, at::kDouble),
    std::pair(9, at::kComplexHalf),    std::pair(10, at::kComplexFloat),
    std::pair(11, at::kComplexDouble), std::pair(12, at::kBool),
    std::pair(13, at::kBFloat16),
};

constexpr std::array kMemoryFormats = {
    std::pair(1, at::MemoryFormat::Contiguous), std::pair(2, at::MemoryFormat::ChannelsLast),
    std::pair(3, at::MemoryFormat::ChannelsLast3d), std::pair(4, at::MemoryFormat::Preserve)};

constexpr std::array kLayouts = {std::pair(7, at::kStrided)};

template <class Codes>
int64_t code_in(const Codes& codes, int64_t number, const char* what) {
  for (const auto& [code, value] : codes) {
    if (code == number) return static_cast<int64_t>(value);
  }
  throw FormatError(accel::text("the {} {} is not supported", what, number));
}

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional ? without_optional(*optional->getElementType()) : type;
}

/// A scalar that does not take part in type promotion.
c10::IValue wrapped(const c10::IValue& number) {
  const c10::Scalar scalar = number.isBool() ? c10::Scalar(number.toBool()) : number.toScalar();
  const at::ScalarType type = scalar.isBoolean()         ? at::kBool
                              : scalar.isIntegral(false) ? at::kLong
                              : scalar.isComplex()       ? at::kComplexDouble
                                                         : at::kDouble;
  at::Tensor out = at::scalar_tensor(scalar, at::dtype(type));
  out.unsafeGetTensorImpl()->set_wrapped_number(true);
  return out;
}

/// A constant that is not a list, for any type.
c10::IValue plain(const Pt2Argument& argument) {
  if (const auto* flag = argument.as<bool>()) return *flag;
  if (const auto* number = argument.as<int64_t>()) return *number;
  if (const auto* number = argument.as<double>()) return *number;
  if (const auto* text = argument.as<std::string>()) return *text;
  if (const auto* code = argument.as<Pt2Code>()) return aten_code(*code);
  if (const auto* number = argument.as<std::complex<double>>()) {
    return c10::complex<double>(number->real(), number->imag());
  }
  return {};
}

}  // namespace

int64_t aten_code(const Pt2Code& code) {
  switch (code.kind) {
    case Pt2Code::Kind::kScalarType:
      return code_in(kScalarTypes, code.number, "element type");
    case Pt2Code::Kind::kMemoryFormat:
      return code_in(kMemoryFormats, code.number, "memory format");
    default:
      return code_in(kLayouts, code.number, "layout");
  }
}

AtenOperand AtenOperand::device_of_run() {
  AtenOperand out;
  out.kind_ = Kind::kDevice;
  return out;
}

AtenOperand::AtenOperand(const Pt2Argument& argument, const c10::Type& type, int32_t list_size) {
  read(argument, without_optional(type), list_size);
}

AtenOperand::AtenOperand(const Pt2Argument& argument) {
  if (const auto* slot = argument.as<Pt2Slot>()) {
    kind_ = Kind::kSlot;
    slot_ = slot->index;
  } else if (argument.as<Pt2Device>()) {
    kind_ = Kind::kDevice;
  } else if (argument.as<Pt2Argument::List>()) {
    throw FormatError("a list instead of a single value");
  } else {
    value_ = plain(argument);
  }
}

void AtenOperand::read(const Pt2Argument& argument, const c10::Type& type, int32_t list_size) {
  if (const auto* list = argument.as<Pt2Argument::List>()) {
    read_list(*list, type);
    return;
  }
  if (argument.as<std::shared_ptr<const Pt2Graph>>()) {
    throw FormatError("a graph is not an argument of an operator");
  }
  if (type.kind() == TypeKind::ListType && !argument.as<std::monostate>()) {
    // A single number is repeated to the length that the operator declares.
    read_list(Pt2Argument::List(static_cast<size_t>(std::max(list_size, 1)), argument), type);
    return;
  }
  if (const auto* slot = argument.as<Pt2Slot>()) {
    // Whether the slot holds a tensor or a size is known at run time.
    kind_ = type.kind() == TypeKind::TensorType ? Kind::kTensor : Kind::kSlot;
    slot_ = slot->index;
    return;
  }
  if (argument.as<Pt2Device>()) {
    kind_ = Kind::kDevice;
    return;
  }
  value_ = plain(argument);
  if (type.kind() == TypeKind::FloatType && value_.isInt()) {
    value_ = static_cast<double>(value_.toInt());
  }
  const bool number = value_.isScalar() || value_.isBool();
  if (type.kind() == TypeKind::TensorType && number) value_ = wrapped(value_);
}

void AtenOperand::read_list(const Pt2Argument::List& items, const c10::Type& type) {
  const auto* list = type.castRaw<c10::ListType>();
  if (!list) throw FormatError(accel::text("a list instead of '{}'", type.annotation_str()));
  element_ = list->getElementType();
  if (element_->kind() == TypeKind::SymIntType) element_ = c10::IntType::get();
  kind_ = Kind::kList;
  bool constant = true;
  for (const Pt2Argument& item : items) {
    items_.emplace_back(item, *element_);
    constant = constant && items_.back().constant();
  }
  if (!constant) return;
  ValueTable none;
  value_ = get(none);
  kind_ = Kind::kConstant;
  items_.clear();
}

c10::IValue AtenOperand::get(ValueTable& table) const {
  if (kind_ == Kind::kConstant) return value_;
  if (kind_ == Kind::kDevice) return table.back();
  if (kind_ == Kind::kList) {
    c10::impl::GenericList list(element_);
    list.reserve(items_.size());
    for (const AtenOperand& item : items_) list.push_back(item.get(table));
    return list;
  }
  c10::IValue value = takes_ ? std::move(table[slot_]) : table[slot_];
  const bool fits = kind_ == Kind::kSlot || value.isTensor() || value.isNone();
  return fits ? value : wrapped(value);
}

void AtenOperand::add_slots(std::vector<size_t>& out) const {
  if (kind_ == Kind::kList) {
    for (const AtenOperand& item : items_) item.add_slots(out);
  } else if (reads_slot()) {
    out.push_back(slot_);
  }
}

bool AtenOperand::take(size_t slot) {
  if (kind_ == Kind::kList) {
    return std::any_of(items_.rbegin(), items_.rend(),
                       [slot](AtenOperand& item) { return item.take(slot); });
  }
  if (!reads_slot() || slot_ != slot) return false;
  takes_ = true;
  return true;
}

}  // namespace accel
