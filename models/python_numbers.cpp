#include "models/python_numbers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/error.h"

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

/// Whole numbers stay whole, as in Python.
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

/// Rounded down, not towards zero; `a - b * quotient` has the sign of b.
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

}  // namespace accel
