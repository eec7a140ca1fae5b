#include "runner/checkpoint/several_optimizers.h"

#include <algorithm>
#include <set>

#include "runner/checkpoint/accelerate_files.h"
#include "runner/checkpoint/values.h"

namespace accel {
namespace {

/// Whether each of two groups has options that the other has not.
bool of_other_kinds(const OptimizerState::Group& a, const OptimizerState::Group& b) {
  std::set<std::string> keys[2];
  for (const auto& [key, value] : a.hyper) keys[0].insert(key);
  for (const auto& [key, value] : b.hyper) keys[1].insert(key);
  return !std::includes(keys[0].begin(), keys[0].end(), keys[1].begin(), keys[1].end()) &&
         !std::includes(keys[1].begin(), keys[1].end(), keys[0].begin(), keys[0].end());
}

/// A running number, `by` later. Names stay as they are.
Value shifted(const Value& key, int64_t by) {
  const auto* number = key.as<int64_t>();
  if (!number) return key;
  if (*number < 0 || *number > static_cast<int64_t>(kMostSteps)) {
    throw FormatError("a parameter is neither a number nor a name");
  }
  return *number + by;
}

Value shifted_group(const Value& group, int64_t by) {
  Value::Dict out;
  for (const auto& [key, item] : dict_in(&group, "param_groups").items) {
    const auto* name = key.as<std::string>();
    if (!name || *name != "params") {
      out.items.emplace_back(key, item);
      continue;
    }
    Value::List numbers;
    for (const Value& number : items_of(&item, "params")) {
      numbers.items.push_back(shifted(number, by));
    }
    out.items.emplace_back(key, std::move(numbers));
  }
  return out;
}

template <class T>
void take_part(std::vector<T>& out, const std::vector<T>& all, size_t group) {
  if (group < all.size()) out.push_back(all[group]);
}

}  // namespace

std::string numbered_file(const std::string& name, size_t number) {
  if (number == 0) return name;
  const size_t dot = name.find('.');
  return name.substr(0, dot) + "_" + std::to_string(number) + name.substr(dot);
}

std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

std::vector<std::string> further_models(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const std::string model = split_name(name).first;
    if (!model.empty() && std::find(out.begin(), out.end(), model) == out.end()) {
      out.push_back(model);
    }
  }
  return out;
}

std::vector<TrainState> split_optimizers(const TrainState& state) {
  std::vector<TrainState> out;
  std::set<size_t> first_groups = {0};
  size_t groups = 0;
  for (const size_t count : state.optimizers) first_groups.insert(groups += count);
  for (size_t g = 0; g < state.optimizer.groups.size(); ++g) {
    const OptimizerState::Group& group = state.optimizer.groups[g];
    if (first_groups.contains(g) || of_other_kinds(state.optimizer.groups[g - 1], group)) {
      TrainState& part = out.emplace_back();
      part.progress = state.progress;
      part.updates = state.updates;
      part.curves = state.curves;
      part.schedule = state.schedule;
    }
    out.back().optimizer.groups.push_back(group);
    take_part(out.back().base_lrs, state.base_lrs, g);
    take_part(out.back().lrs, state.lrs, g);
  }
  if (out.size() > 1) return out;
  out.assign(1, state);
  return out;
}

Value join_optimizers(std::vector<Value> values) {
  if (values.size() == 1) return std::move(values[0]);
  Value::Dict state;
  Value::List groups;
  int64_t before = 0;
  for (const Value& value : values) {
    for (const auto& [key, slots] : dict_in(value.find("state"), "state").items) {
      state.items.emplace_back(shifted(key, before), slots);
    }
    for (const Value& group : items_of(value.find("param_groups"), "param_groups")) {
      groups.items.push_back(shifted_group(group, before));
    }
    before += static_cast<int64_t>(count_parameters(value));
  }
  Value::Dict out;
  out.items.emplace_back("state", std::move(state));
  out.items.emplace_back("param_groups", std::move(groups));
  return out;
}

TorchSchedule join_schedules(const std::vector<TorchSchedule>& schedules) {
  TorchSchedule out = schedules.front();
  for (size_t i = 1; i < schedules.size(); ++i) {
    const TorchSchedule& next = schedules[i];
    out.base_lrs.insert(out.base_lrs.end(), next.base_lrs.begin(), next.base_lrs.end());
    out.last_lrs.insert(out.last_lrs.end(), next.last_lrs.begin(), next.last_lrs.end());
    out.cycles_momentum = out.cycles_momentum || next.cycles_momentum;
  }
  return out;
}

}  // namespace accel
