#include "runner/checkpoint/renumber.h"

#include <algorithm>
#include <map>
#include <vector>

#include "runner/formats/format_error.h"

namespace accel {
namespace {

const std::vector<Value>& items_of(const Value* value) {
  const auto* list = value ? value->as<Value::List>() : nullptr;
  const auto* tuple = value ? value->as<Value::Tuple>() : nullptr;
  if (!list && !tuple) throw FormatError("the optimizer's state has no list of parameter groups");
  return list ? list->items : tuple->items;
}

/// "7" or "'fc.weight'".
std::string key_of(const Value& parameter) {
  if (const auto* number = parameter.as<int64_t>()) return std::to_string(*number);
  if (const auto* name = parameter.as<std::string>()) return "'" + *name + "'";
  throw FormatError("a parameter is neither a number nor a name");
}

/// The parameters of all groups, in order.
std::vector<Value> parameters_in(const Value& optimizer) {
  std::vector<Value> out;
  for (const Value& group : items_of(optimizer.find("param_groups"))) {
    for (const Value& parameter : items_of(group.find("params"))) out.push_back(parameter);
  }
  return out;
}

Value renamed(const Value& optimizer, const std::map<std::string, Value>& names) {
  const auto name_of = [&](const Value& parameter) {
    const auto found = names.find(key_of(parameter));
    if (found != names.end()) return found->second;
    throw FormatError("parameter " + key_of(parameter) + " has a state but is in no group");
  };
  const Value* state = optimizer.find("state");
  const auto* slots = state ? state->as<Value::Dict>() : nullptr;
  if (!slots) throw FormatError("the optimizer's state has no 'state'");
  Value::Dict new_state;
  for (const auto& [parameter, value] : slots->items) {
    new_state.items.emplace_back(name_of(parameter), value);
  }
  // Numbers in order, as torch.optim writes them.
  std::stable_sort(new_state.items.begin(), new_state.items.end(),
                   [](const auto& a, const auto& b) {
                     const auto* first = a.first.template as<int64_t>();
                     const auto* second = b.first.template as<int64_t>();
                     return first && second && *first < *second;
                   });
  Value::List new_groups;
  for (const Value& group : items_of(optimizer.find("param_groups"))) {
    Value::Dict new_group;
    for (const auto& [key, value] : group.as<Value::Dict>()->items) {
      const auto* text = key.as<std::string>();
      if (!text || *text != "params") {
        new_group.items.emplace_back(key, value);
        continue;
      }
      Value::List parameters;
      for (const Value& parameter : items_of(&value))
        parameters.items.push_back(name_of(parameter));
      new_group.items.emplace_back(key, std::move(parameters));
    }
    new_groups.items.emplace_back(std::move(new_group));
  }
  Value::Dict out;
  out.items.emplace_back("state", std::move(new_state));
  out.items.emplace_back("param_groups", std::move(new_groups));
  return out;
}

}  // namespace

Value by_running_number(const Value& optimizer) {
  std::map<std::string, Value> names;
  int64_t number = 0;
  for (const Value& parameter : parameters_in(optimizer)) names[key_of(parameter)] = number++;
  return renamed(optimizer, names);
}

std::optional<Value> by_parameter_name(const Value& optimizer,
                                       std::span<const std::string>& names) {
  const std::vector<Value> parameters = parameters_in(optimizer);
  std::map<std::string, Value> by_key;
  for (const Value& parameter : parameters) {
    if (parameter.as<std::string>()) {
      by_key[key_of(parameter)] = parameter;
    } else if (names.empty()) {
      return std::nullopt;
    } else {
      by_key[key_of(parameter)] = names.front();
      names = names.subspan(1);
    }
  }
  return renamed(optimizer, by_key);
}

}  // namespace accel
