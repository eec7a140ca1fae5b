#include "runner/checkpoint/accelerate_files.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/checkpoint/tensors.h"
#include "runner/checkpoint/values.h"
#include "runner/formats/python_random.h"

namespace accel {
namespace {

constexpr auto kInitialRate = "initial_lr";
constexpr auto kHostGenerator = "torch_manual_seed";
constexpr auto kDeviceGenerators = "torch_cuda_manual_seed";
constexpr int64_t kMersennePosition = 624;

Value list_of(const std::vector<double>& numbers) {
  Value::List out;
  for (const double number : numbers) out.items.emplace_back(number);
  return out;
}

Value words_of(const MersenneState& words, bool with_position) {
  Value::List out;
  for (const uint32_t word : words) out.items.emplace_back(int64_t{word});
  if (!with_position) return out;
  out.items.emplace_back(kMersennePosition);
  return Value::Tuple{std::move(out.items)};
}

/// What every scheduler of PyTorch's keeps. Only a LambdaLR asks for `lr_lambdas`; the others let
/// them be.
Value::Dict scheduler_dict(const TrainState& state, int64_t steps) {
  Value::Dict out;
  out.items.emplace_back("base_lrs", list_of(state.base_lrs));
  out.items.emplace_back("last_epoch", steps);
  out.items.emplace_back("_step_count", steps + 1);
  out.items.emplace_back("_is_initial", false);
  out.items.emplace_back("_get_lr_called_within_step", false);
  out.items.emplace_back("_last_lr", list_of(state.lrs));
  out.items.emplace_back("lr_lambdas", Value::List{std::vector<Value>(state.base_lrs.size())});
  return out;
}

/// SequentialLR has a scheduler per curve, each counting from its own start; WarmRestarts counts
/// from the start of the present one.
void add_curves(const TrainState& state, int64_t steps, Value::Dict& out) {
  Value::List parts;
  for (size_t i = 0; i + 1 < state.curves.size(); ++i) {
    const int64_t begin = state.curves[i], end = state.curves[i + 1];
    const bool last = i + 2 == state.curves.size();
    const int64_t done = std::clamp<int64_t>(steps - begin, 0, last ? steps : end - begin - 1);
    parts.items.emplace_back(scheduler_dict(state, done));
    if (steps < begin || (steps >= end && !last)) continue;
    out.items.emplace_back("T_cur", done);
    out.items.emplace_back("T_i", end - begin);
  }
  if (parts.items.size() > 1) out.items.emplace_back("_schedulers", std::move(parts));
}

struct HyperWriter {
  Value operator()(std::monostate) const { return {}; }
  Value operator()(const std::vector<double>& numbers) const {
    return Value::Tuple{std::get<Value::List>(list_of(numbers).data).items};
  }
  template <class T>
  Value operator()(const T& value) const {
    return value;
  }
};

/// Numbers; a None among them, which leaves one to PyTorch, is NaN.
std::vector<double> hyper_list(const std::string& key, const Value& value) {
  std::vector<double> out;
  for (const Value& item : items_of(&value, key.c_str())) {
    const std::optional<double> number =
        item.as<Value::None>() ? std::numeric_limits<double>::quiet_NaN() : number_in(item);
    if (!number) throw FormatError("'" + key + "' holds something but numbers");
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
    has_base = has_base || key == kInitialRate;
    out.items.emplace_back(key, std::visit(HyperWriter(), value));
  }
  if (base_lr && !has_base) out.items.emplace_back(kInitialRate, *base_lr);
  Value::List numbers;
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    numbers.items.emplace_back(first + static_cast<int64_t>(i));
  }
  out.items.emplace_back("params", std::move(numbers));
  return out;
}

Value slots_value(const OptimizerState::Parameter& parameter) {
  Value::Dict out;
  for (const NamedTensor& slot : parameter.slots) {
    out.items.emplace_back(slot.name, array_of(slot.tensor, parameter.name + "." + slot.name));
  }
  return out;
}

/// Slots that hold nothing are left out; a bare number becomes the tensor PyTorch now keeps.
std::vector<NamedTensor> slots_in(const Value& value) {
  std::vector<NamedTensor> out;
  for (const auto& [key, slot] : dict_in(&value, "state").items) {
    const auto* name = key.as<std::string>();
    if (!name) throw FormatError("the state of a parameter has a key that is no text");
    if (slot.as<Value::None>()) continue;
    if (const auto* array = slot.as<Array>()) {
      out.push_back({*name, tensor_of(*array)});
    } else if (const std::optional<double> number = number_in(slot)) {
      const auto single = static_cast<float>(*number);
      out.push_back({*name, tensor_of(Array::of<float>(DType::kF32, {}, {&single, 1}))});
    } else {
      throw FormatError("the state of a parameter has '" + *name + "', which is no tensor");
    }
  }
  return out;
}

/// Parameters are running numbers, or names when a sharded optimizer was saved.
std::string parameter_name(const Value& key, const std::vector<std::string>& names) {
  if (const auto* name = key.as<std::string>()) return *name;
  const auto* number = key.as<int64_t>();
  if (!number || *number < 0) throw FormatError("a parameter is neither a number nor a name");
  if (static_cast<size_t>(*number) >= names.size()) {
    throw FormatError("parameter number " + std::to_string(*number) + " is one of more than the " +
                      std::to_string(names.size()) + " expected");
  }
  return names[static_cast<size_t>(*number)];
}

OptimizerState::Group read_group(const Value& value, const std::vector<std::string>& names,
                                 std::map<std::string, std::vector<NamedTensor>>& slots) {
  OptimizerState::Group out;
  for (const auto& [key, item] : dict_in(&value, "param_groups").items) {
    const auto* name = key.as<std::string>();
    if (!name) throw FormatError("a parameter group has a key that is no text");
    if (*name != "params" && *name != kInitialRate) {
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

}  // namespace

Value optimizer_value(const TrainState& state) {
  Value::Dict slots;
  Value::List groups;
  int64_t number = 0;
  for (size_t i = 0; i < state.optimizer.groups.size(); ++i) {
    const OptimizerState::Group& group = state.optimizer.groups[i];
    const double* base_lr = i < state.base_lrs.size() ? &state.base_lrs[i] : nullptr;
    groups.items.push_back(group_value(group, number, base_lr));
    for (const OptimizerState::Parameter& parameter : group.parameters) {
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
    for (const OptimizerState::Parameter& parameter : group.parameters) {
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
      for (const NamedTensor& slot : slots) {
        if (slot.name != "step" || slot.tensor.numel() != 1) continue;
        const double steps = slot.tensor.item().toDouble();
        if (!(steps >= 0 && steps <= kMostSteps)) {
          throw FormatError("'" + name + "' has a 'step' that counts no steps");
        }
        most = std::max(most.value_or(0), static_cast<int64_t>(steps));
      }
    }
  }
  return most;
}

void read_optimizer(const Value& value, const std::vector<std::string>& names, TrainState& state) {
  std::map<std::string, std::vector<NamedTensor>> slots;
  for (const auto& [key, item] : dict_in(value.find("state"), "state").items) {
    slots[parameter_name(key, names)] = slots_in(item);
  }
  std::vector<double> base_lrs;
  OptimizerState optimizer;
  for (const Value& group : items_of(value.find("param_groups"), "param_groups")) {
    optimizer.groups.push_back(read_group(group, names, slots));
    const Value* base = group.find(kInitialRate);
    if (const auto number = base ? number_in(*base) : std::nullopt) base_lrs.push_back(*number);
  }
  if (!slots.empty()) {
    throw FormatError("'" + slots.begin()->first + "' has a state but is in no parameter group");
  }
  const size_t count = optimizer_parameters(optimizer).size();
  if (count != names.size()) {
    throw FormatError("it has " + std::to_string(count) + " parameters, not the " +
                      std::to_string(names.size()) + " expected");
  }
  state.optimizer = std::move(optimizer);
  if (state.base_lrs.empty()) state.base_lrs = std::move(base_lrs);
}

Value scheduler_value(const TrainState& state) {
  const int64_t steps = state.updates.value_or(state.progress.step);
  Value::Dict out = scheduler_dict(state, steps);
  add_curves(state, steps, out);
  // What ReduceLROnPlateau keeps; a name with a dot is a phase's.
  for (const auto& [name, number] : state.schedule.numbers) {
    if (name.find('.') == name.npos) out.items.emplace_back(name, number);
  }
  return out;
}

void read_scheduler(const Value& value, TrainState& state) {
  for (const auto& [key, item] : dict_in(&value, "scheduler").items) {
    const auto* name = key.as<std::string>();
    const std::optional<double> number = number_in(item);
    if (name && number) state.schedule.numbers[*name] = *number;
    if (const auto* text = item.as<std::string>(); name && text)
      state.schedule.texts[*name] = *text;
  }
  if (const Value* base = value.find("base_lrs")) state.base_lrs = numbers_in(base, "base_lrs");
  if (const Value* last = value.find("_last_lr")) state.lrs = numbers_in(last, "_last_lr");
}

Value scaler_value(const StateDict& scaler) {
  Value::Dict out;
  for (const auto& [name, number] : scaler.numbers) {
    const bool counts = name == "growth_interval" || name == "_growth_tracker";
    out.items.emplace_back(name, counts ? Value(std::llround(number)) : Value(number));
  }
  return out;
}

StateDict read_scaler(const Value& value) {
  StateDict out;
  for (const auto& [key, item] : dict_in(&value, "scaler").items) {
    const auto* name = key.as<std::string>();
    const std::optional<double> number = number_in(item);
    if (!name || !number) throw FormatError("the gradient scaler's state is not made of numbers");
    out.numbers[*name] = *number;
  }
  return out;
}

Value custom_value(const StateDict& state) {
  Value::Dict out;
  for (const auto& [name, number] : state.numbers) out.items.emplace_back(name, number);
  for (const auto& [name, text] : state.texts) out.items.emplace_back(name, text);
  for (const auto& [name, tensor] : state.tensors) {
    out.items.emplace_back(name, array_of(tensor, name));
  }
  return out;
}

Value random_states_value(const TrainState& state, size_t rank) {
  // 0 is a boundary of any accumulation window, and checkpoints are cut at boundaries.
  const int64_t micro_step = 0;
  const MersenneState numpy = numpy_random_state(static_cast<uint32_t>(state.seed));
  Value::Dict out;
  out.items.emplace_back("step", micro_step);
  out.items.emplace_back("random_state",
                         Value::Tuple{{3, words_of(python_random_state(state.seed), true), {}}});
  out.items.emplace_back("numpy_random_seed", Value::Tuple{{"MT19937", words_of(numpy, false),
                                                            kMersennePosition, 0, 0.0}});
  const at::Tensor& rng = rank == 0 ? state.rng : state.other_rngs[rank - 1];
  if (rng.defined()) out.items.emplace_back(kHostGenerator, array_of(rng, "rng"));
  if (rank < state.device_rngs.size()) {
    Value::List devices;
    for (const at::Tensor& device : state.device_rngs[rank].unbind()) {
      devices.items.emplace_back(array_of(device, "rng"));
    }
    out.items.emplace_back(kDeviceGenerators, std::move(devices));
  }
  return out;
}

void read_random_states(const Value& value, size_t rank, TrainState& state) {
  const auto* array =
      value.find(kHostGenerator) ? value.find(kHostGenerator)->as<Array>() : nullptr;
  const at::Tensor host = array ? tensor_of(*array) : at::Tensor();
  if (rank == 0) {
    state.rng = host;
  } else {
    state.other_rngs.push_back(host);
  }
  const Value* list = value.find(kDeviceGenerators);
  const auto* devices = list ? list->as<Value::List>() : nullptr;
  // Of no use when a rank before has none: then they are no rank's of a run on GPUs.
  if (!devices || state.device_rngs.size() != rank) return;
  std::vector<at::Tensor> states;
  for (const Value& item : devices->items) {
    const auto* bytes = item.as<Array>();
    if (!bytes || (!states.empty() && bytes->shape() != states[0].sizes().vec())) return;
    states.push_back(tensor_of(*bytes));
  }
  if (!states.empty()) state.device_rngs.push_back(at::stack(states));
}

}  // namespace accel
