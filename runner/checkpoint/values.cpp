#include "runner/checkpoint/values.h"

#include "runner/checkpoint/tensors.h"

namespace accel {

const std::vector<Value>& items_of(const Value* value, const char* what) {
  if (value) {
    if (const auto* list = value->as<Value::List>()) return list->items;
    if (const auto* tuple = value->as<Value::Tuple>()) return tuple->items;
  }
  throw FormatError("'" + std::string(what) + "' is not a list");
}

const Value::Dict& dict_in(const Value* value, const char* what) {
  const auto* dict = value ? value->as<Value::Dict>() : nullptr;
  if (!dict) throw FormatError("'" + std::string(what) + "' is not a dict");
  return *dict;
}

std::optional<double> number_in(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag ? 1.0 : 0.0;
  if (const auto* whole = value.as<int64_t>()) return static_cast<double>(*whole);
  if (const auto* number = value.as<double>()) return *number;
  const auto* array = value.as<Array>();
  if (array && array->count() == 1) return tensor_of(*array).item().toDouble();
  return std::nullopt;
}

std::vector<double> numbers_in(const Value* value, const char* what) {
  std::vector<double> out;
  for (const Value& item : items_of(value, what)) {
    const std::optional<double> number = number_in(item);
    if (!number) throw FormatError("'" + std::string(what) + "' holds something but numbers");
    out.push_back(*number);
  }
  return out;
}

}  // namespace accel
