#include "checkpoint/accelerate_files.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/tensors.h"
#include "formats/tensors/python_random.h"

namespace accel {
namespace {

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

/// Fields of every torch.optim scheduler. Only LambdaLR reads `lr_lambdas`; others ignore them.
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

/// SequentialLR has a scheduler per curve, each with its own step count;
/// CosineAnnealingWarmRestarts counts from the start of the current curve.
void add_curves(const TrainState& state, int64_t steps, Value::Dict& out) {
  Value::List schedulers;
  for (size_t i = 0; i + 1 < state.curves.size(); ++i) {
    const int64_t begin = state.curves[i], end = state.curves[i + 1];
    const bool last = i + 2 == state.curves.size();
    const int64_t done = std::clamp<int64_t>(steps - begin, 0, last ? steps : end - begin - 1);
    schedulers.items.emplace_back(scheduler_dict(state, done));
    if (steps < begin || (steps >= end && !last)) continue;
    out.items.emplace_back("T_cur", done);
    out.items.emplace_back("T_i", end - begin);
  }
  if (schedulers.items.size() > 1) out.items.emplace_back("_schedulers", std::move(schedulers));
}

}  // namespace

Value scheduler_value(const TrainState& state) {
  const int64_t steps = state.updates.value_or(state.progress.step);
  Value::Dict out = scheduler_dict(state, steps);
  add_curves(state, steps, out);
  // The state of ReduceLROnPlateau; names with a dot belong to phases.
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
  if (const Value* bounds = value.find("min_lrs")) {
    const std::vector<double> each = numbers_in(bounds, "min_lrs");
    const bool equal = std::set<double>(each.begin(), each.end()).size() == 1;
    if (equal) state.schedule.numbers["min_lr"] = each.front();
    if (!equal) state.schedule.texts["min_lr"] = "another for each group";
  }
  if (const Value* base = value.find("base_lrs")) state.base_lrs = numbers_in(base, "base_lrs");
  if (const Value* last = value.find("_last_lr")) state.lrs = numbers_in(last, "_last_lr");
}

Value scaler_value(const StateDict& scaler) {
  Value::Dict out;
  for (const auto& [name, number] : scaler.numbers) {
    const bool integral = name == "growth_interval" || name == "_growth_tracker";
    out.items.emplace_back(name, integral ? Value(std::llround(number)) : Value(number));
  }
  return out;
}

StateDict read_scaler(const Value& value) {
  StateDict out;
  for (const auto& [key, item] : dict_in(&value, "scaler").items) {
    const auto* name = key.as<std::string>();
    const std::optional<double> number = number_in(item);
    if (!name || !number)
      throw FormatError("the state of the gradient scaler has a value that is not a number");
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
  // Checkpoints are saved at optimizer steps, where gradient accumulation is at 0.
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
  // Ignored when a lower rank has none: the ranks did not all run on GPUs.
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
