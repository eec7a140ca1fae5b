// Lists, dicts and numbers out of the value trees that Python's files hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/formats/pickle.h"

namespace accel {

/// No run has more, and beyond it a double would not count by ones.
constexpr double kMostSteps = 0x1p40;

/// The items of a list or tuple. Throws FormatError naming `what`; so do the others.
const std::vector<Value>& items_of(const Value* value, const char* what);

const Value::Dict& dict_in(const Value* value, const char* what);

/// A bool, whole or floating number, or a tensor of one element, as a double.
std::optional<double> number_in(const Value& value);

std::vector<double> numbers_in(const Value* value, const char* what);

}  // namespace accel
