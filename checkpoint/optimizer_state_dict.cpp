#include "checkpoint/optimizer_state_dict.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "checkpoint/tensors.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kInitialLr = "initial_lr";

[[noreturn]] void throw_invalid_key() {
  throw FormatError("a parameter key is neither an id nor a name");
}

struct HyperWriter {
  Value operator()(std::monostate) const { return {}; }
  Value operator()(const std::vector<double>& numbers) const {
    return Value::Tuple{std::vector<Value>(numbers.begin(), numbers.end())};
  }
  template <class T>
  Value operator()(const T& value) const {
    return value;
  }
};

/// A list of numbers; None, PyTorch's default, becomes NaN.
std::vector<double> hyper_list(const std::string& key, const Value& value) {
  std::vector<double> out;
  for (const Value& item : items_of(&value, key.c_str())) {
    const std::optional<double> number =
        item.as<Value::None>() ? std::numeric_limits<double>::quiet_NaN() : number_in(item);
    if (!number) throw FormatError(text("'{}' is not a list of numbers", key));
    out.push_back(*number);
  }
  return out;
}

HyperValue hyper_of(const std::string& key, const Value& value) {
  if (value.as<Value::None>()) return std::monostate();
  if (const auto* flag = value.as<bool>()) return *flag;
  if (const auto* whole = value.as<int64_t>()) return *whole;
  if (const auto* text = value.as<std::string>()) return *text;
  if (const std::optional<double> number = number_in(value)) return *number;
  return hyper_list(key, value);
}

Value group_value(const OptimizerState::Group& group, int64_t first, const double* base_lr) {
  Value::Dict out;
  bool has_base = false;
  for (const auto& [key, value] : group.hyper) {
    has_base = has_base || key == kInitialLr;
    out.items.emplace_back(key, std::visit(HyperWriter(), value));
  }
  if (base_lr && !has_base) out.items.emplace_back(kInitialLr, *base_lr);
  Value::List numbers;
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    numbers.items.emplace_back(first + static_cast<int64_t>(i));
  }
  out.items.emplace_back("params", std::move(numbers));
  return out;
}

Value slots_value(const OptimizerState::ParameterState& parameter) {
  Value::Dict out;
  for (const Parameter& slot : parameter.slots) {
    out.items.emplace_back(slot.name, array_of(slot.local, parameter.name + "." + slot.name));
  }
  return out;
}

/// Skips empty slots; a number, of older versions, becomes a scalar tensor.
std::vector<Parameter> slots_in(const Value& value) {
  std::vector<Parameter> out;
  for (const auto& [key, slot] : dict_in(&value, "state").items) {
    const auto* name = key.as<std::string>();
    if (!name) throw FormatError("the state of a parameter has a key that is not a string");
    if (slot.as<Value::None>()) continue;
    if (const auto* array = slot.as<Array>()) {
      out.push_back({*name, tensor_of(*array)});
    } else if (const std::optional<double> number = number_in(slot)) {
      const auto single = static_cast<float>(*number);
      out.push_back({*name, tensor_of(Array::of<float>(DType::kF32, {}, {&single, 1}))});
    } else {
      throw FormatError(text("'{}' in the state of a parameter is not a tensor", *name));
    }
  }
  return out;
}

/// Keys are ids, or names in the state of a sharded optimizer.
std::string parameter_name(const Value& key, const std::vector<std::string>& names) {
  if (const auto* name = key.as<std::string>()) return *name;
  const auto* id = key.as<int64_t>();
  if (!id || *id < 0) throw_invalid_key();
  if (static_cast<size_t>(*id) >= names.size()) {
    throw FormatError(text("parameter id {} is out of range for {} parameters", *id, names.size()));
  }
  return names[static_cast<size_t>(*id)];
}

OptimizerState::Group read_group(const Value& value, const std::vector<std::string>& names,
                                 std::map<std::string, std::vector<Parameter>>& slots) {
  OptimizerState::Group out;
  for (const auto& [key, item] : dict_in(&value, "param_groups").items) {
    const auto* name = key.as<std::string>();
    if (!name) throw FormatError("a parameter group has a key that is not a string");
    if (*name != "params" && *name != kInitialLr) {
      out.hyper.emplace_back(*name, hyper_of(*name, item));
    }
  }
  for (const Value& parameter : items_of(value.find("params"), "params")) {
    const std::string name = parameter_name(parameter, names);
    out.parameters.push_back({name, {}});
    const auto found = slots.find(name);
    if (found == slots.end()) continue;
    out.parameters.back().slots = std::move(found->second);
    slots.erase(found);
  }
  return out;
}

/// Whether each of two groups has options that the other lacks: two optimizer types.
bool differ_in_type(const OptimizerState::Group& a, const OptimizerState::Group& b) {
  std::set<std::string> keys[2];
  for (const auto& [key, value] : a.hyper) keys[0].insert(key);
  for (const auto& [key, value] : b.hyper) keys[1].insert(key);
  return !std::includes(keys[0].begin(), keys[0].end(), keys[1].begin(), keys[1].end()) &&
         !std::includes(keys[1].begin(), keys[1].end(), keys[0].begin(), keys[0].end());
}

template <class T>
void append_at(std::vector<T>& out, const std::vector<T>& all, size_t group) {
  if (group < all.size()) out.push_back(all[group]);
}

/// Maps a parameter's key, an id or a name, to another.
using MapParam = std::function<Value(const Value& param)>;

Value::Dict mapped_group(const Value& group, const MapParam& map) {
  Value::Dict out;
  for (const auto& [key, item] : dict_in(&group, "param_groups").items) {
    const auto* name = key.as<std::string>();
    if (!name || *name != "params") {
      out.items.emplace_back(key, item);
      continue;
    }
    Value::List params;
    for (const Value& param : items_of(&item, "params")) params.items.push_back(map(param));
    out.items.emplace_back(key, std::move(params));
  }
  return out;
}

struct StateDictParts {
  Value::Dict state;
  Value::List groups;

  /// Appends `optimizer` with mapped parameter keys.
  void append(const Value& optimizer, const MapParam& map) {
    for (const auto& [key, slots] : dict_in(optimizer.find("state"), "state").items) {
      state.items.emplace_back(map(key), slots);
    }
    for (const Value& group : items_of(optimizer.find("param_groups"), "param_groups")) {
      groups.items.emplace_back(mapped_group(group, map));
    }
  }

  Value state_dict() && {
    Value::Dict out;
    out.items.emplace_back("state", std::move(state));
    out.items.emplace_back("param_groups", std::move(groups));
    return out;
  }
};

/// "7" or "'fc.weight'".
std::string key_text(const Value& param) {
  if (const auto* id = param.as<int64_t>()) return std::to_string(*id);
  if (const auto* name = param.as<std::string>()) return "'" + *name + "'";
  throw_invalid_key();
}

/// The parameter keys of all groups, in order.
std::vector<Value> params_of(const Value& optimizer) {
  std::vector<Value> out;
  for (const Value& group : items_of(optimizer.find("param_groups"), "param_groups")) {
    for (const Value& param : items_of(group.find("params"), "params")) out.push_back(param);
  }
  return out;
}

/// The state_dict with the keys of `keys`, by key_text(). Ids are in ascending order.
Value with_keys(const Value& optimizer, const std::map<std::string, Value>& keys) {
  StateDictParts parts;
  parts.append(optimizer, [&](const Value& param) {
    const auto found = keys.find(key_text(param));
    if (found != keys.end()) return found->second;
    throw FormatError(text("parameter {} has a state but is in no group", key_text(param)));
  });
  std::stable_sort(parts.state.items.begin(), parts.state.items.end(),
                   [](const auto& a, const auto& b) {
                     const auto* first = a.first.template as<int64_t>();
                     const auto* second = b.first.template as<int64_t>();
                     return first && second && *first < *second;
                   });
  return std::move(parts).state_dict();
}

}  // namespace

Value optimizer_value(const TrainState& state) {
  Value::Dict slots;
  Value::List groups;
  int64_t number = 0;
  for (size_t i = 0; i < state.optimizer.groups.size(); ++i) {
    const OptimizerState::Group& group = state.optimizer.groups[i];
    const double* base_lr = i < state.base_lrs.size() ? &state.base_lrs[i] : nullptr;
    groups.items.push_back(group_value(group, number, base_lr));
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      if (!parameter.slots.empty()) slots.items.emplace_back(number, slots_value(parameter));
      ++number;
    }
  }
  Value::Dict out;
  out.items.emplace_back("state", std::move(slots));
  out.items.emplace_back("param_groups", std::move(groups));
  return out;
}

std::vector<std::string> optimizer_parameters(const OptimizerState& optimizer) {
  std::vector<std::string> out;
  for (const OptimizerState::Group& group : optimizer.groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      out.push_back(parameter.name);
    }
  }
  return out;
}

size_t count_parameters(const Value& optimizer) {
  size_t count = 0;
  for (const Value& group : items_of(optimizer.find("param_groups"), "param_groups")) {
    count += items_of(group.find("params"), "params").size();
  }
  return count;
}

std::optional<int64_t> updates_in(const OptimizerState& optimizer) {
  std::optional<int64_t> most;
  for (const OptimizerState::Group& group : optimizer.groups) {
    for (const auto& [name, slots] : group.parameters) {
      for (const Parameter& slot : slots) {
        if (slot.name != "step" || slot.local.numel() != 1) continue;
        const double steps = slot.local.item().toDouble();
        if (!(steps >= 0 && steps <= kMostSteps)) {
          throw FormatError(text("'step' of '{}' is not a step count", name));
        }
        most = std::max(most.value_or(0), static_cast<int64_t>(steps));
      }
    }
  }
  return most;
}

void read_optimizer(const Value& value, const std::vector<std::string>& names, TrainState& state) {
  std::map<std::string, std::vector<Parameter>> slots;
  for (const auto& [key, item] : dict_in(value.find("state"), "state").items) {
    slots[parameter_name(key, names)] = slots_in(item);
  }
  std::vector<double> base_lrs;
  OptimizerState optimizer;
  for (const Value& group : items_of(value.find("param_groups"), "param_groups")) {
    optimizer.groups.push_back(read_group(group, names, slots));
    const Value* base = group.find(kInitialLr);
    if (const auto number = base ? number_in(*base) : std::nullopt) base_lrs.push_back(*number);
  }
  if (!slots.empty()) {
    throw FormatError(text("parameter '{}' has a state but is in no group", slots.begin()->first));
  }
  const size_t count = optimizer_parameters(optimizer).size();
  if (count != names.size()) {
    throw FormatError(text("it has {} parameters, {} wanted", count, names.size()));
  }
  state.optimizer = std::move(optimizer);
  if (state.base_lrs.empty()) state.base_lrs = std::move(base_lrs);
}

std::vector<TrainState> split_optimizers(const TrainState& state) {
  std::vector<TrainState> out;
  std::set<size_t> first_groups = {0};
  size_t groups = 0;
  for (const size_t count : state.optimizers) first_groups.insert(groups += count);
  for (size_t g = 0; g < state.optimizer.groups.size(); ++g) {
    const OptimizerState::Group& group = state.optimizer.groups[g];
    if (first_groups.contains(g) || differ_in_type(state.optimizer.groups[g - 1], group)) {
      TrainState& first = out.emplace_back();
      first.progress = state.progress;
      first.updates = state.updates;
      first.curves = state.curves;
      first.schedule = state.schedule;
    }
    out.back().optimizer.groups.push_back(group);
    append_at(out.back().base_lrs, state.base_lrs, g);
    append_at(out.back().lrs, state.lrs, g);
  }
  if (out.size() > 1) return out;
  out.assign(1, state);
  return out;
}

Value join_optimizers(std::vector<Value> values) {
  if (values.size() == 1) return std::move(values[0]);
  StateDictParts parts;
  int64_t first_id = 0;
  for (const Value& value : values) {
    parts.append(value, [&](const Value& param) -> Value {
      const auto* id = param.as<int64_t>();
      if (!id) return param;
      if (*id < 0 || *id > static_cast<int64_t>(kMostSteps)) throw_invalid_key();
      return *id + first_id;
    });
    first_id += static_cast<int64_t>(count_parameters(value));
  }
  return std::move(parts).state_dict();
}

Value with_param_ids(const Value& optimizer) {
  std::map<std::string, Value> keys;
  int64_t id = 0;
  for (const Value& param : params_of(optimizer)) keys[key_text(param)] = id++;
  return with_keys(optimizer, keys);
}

std::optional<Value> with_param_names(const Value& optimizer, std::span<const std::string>& names) {
  std::map<std::string, Value> keys;
  for (const Value& param : params_of(optimizer)) {
    if (param.as<std::string>()) {
      keys[key_text(param)] = param;
    } else if (names.empty()) {
      return std::nullopt;
    } else {
      keys[key_text(param)] = names.front();
      names = names.subspan(1);
    }
  }
  return with_keys(optimizer, keys);
}

}  // namespace accel
