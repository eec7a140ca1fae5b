// A training state with a bit of everything, and its content as a text that tests compare.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "checkpoint/tensors.h"
#include "checkpoint/train_state.h"
#include "formats/checksum.h"

namespace accel {

inline at::Tensor floats(Shape shape, float first) {
  Array out(DType::kF32, std::move(shape));
  for (float& value : out.mutable_as<float>()) value = first += 0.5F;
  return tensor_of(out);
}

inline at::Tensor whole(int64_t value) {
  return tensor_of(Array::label(value));
}

inline at::Tensor generator_bytes(int64_t step) {
  Array out(DType::kU8, {5056});
  for (int64_t i = 0; i < out.count(); ++i) {
    out.mutable_as<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(i * step);
  }
  return tensor_of(out);
}

/// Everything in it depends on `step`. The head is tied to the embedding.
inline TrainState small_state(int64_t step) {
  const auto x = static_cast<float>(step);
  TrainState out;
  out.progress = {step, step / 10, step % 10, step * 64, step * 4096};
  out.seed = 1234567890123456789U;
  const at::Tensor embedding = floats({3, 2}, x);
  out.model = {{"wte.weight", embedding},
               {"bias", floats({2}, -x)},
               {"norm.num_batches_tracked", whole(step)},
               {"lm_head.weight", embedding}};
  const auto adam = [&](const std::string& name, const Shape& shape) {
    return OptimizerState::ParameterState{name,
                                          {{"step", floats({}, x)},
                                           {"exp_avg", floats(shape, x + 1)},
                                           {"exp_avg_sq", floats(shape, x + 2)}}};
  };
  out.optimizer.groups = {{{{"lr", 0.1 / (1 + x)},
                            {"betas", std::vector<double>{0.9, 0.999}},
                            {"eps", 1e-8},
                            {"weight_decay", 0.01},
                            {"amsgrad", false},
                            {"foreach", std::monostate()},
                            {"count", int64_t{1} << 40},
                            {"kind", std::string("wéird")}},
                           {adam("wte.weight", {3, 2})}},
                          {{{"lr", 1e-300}}, {adam("bias", {2}), {"fresh", {}}}}};
  out.base_lrs = {0.1, std::numeric_limits<double>::denorm_min()};
  out.lrs = {0.1 / (1 + x), 1e-300};
  out.schedule.numbers = {{"best", -std::numeric_limits<double>::infinity()}, {"bad", x}};
  out.scaler =
      StateDict{{{"scale", 65536.0}, {"growth_interval", 2000}, {"_growth_tracker", x}}, {}, {}};
  out.rng = generator_bytes(step);
  out.sections["callbacks/ema"].tensors["wte.weight"] = floats({3, 2}, x + 3);
  out.sections["best"].numbers = {
      {"value", std::bit_cast<double>(0x7ff8dead0000beefULL)}, {"zero", -0.0}, {"third", 1.0 / 3}};
  out.sections["trackers"].texts = {{"id", "abc\n\"é\""}};
  out.provenance = {{"torch", "2.11.0"}, {"threads", "2"}};
  out.metrics = {{"eval/loss", 1.0 / (1 + x)}};
  out.recipe = "model: {type: mlp}\n";
  return out;
}

inline std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  const Array array = array_of(tensor, "x");
  return std::string(name_of(array.type())) + to_string(array.shape()) + " " +
         hex_text(checksum_of({array.data(), array.bytes()}));
}

inline std::string text_of(double value) {
  return hex_text(std::bit_cast<uint64_t>(value));
}

inline std::string text_of(const StateDict& state) {
  std::string out;
  for (const auto& [name, value] : state.numbers) out += "  " + name + " " + text_of(value) + "\n";
  for (const auto& [name, value] : state.texts) out += "  " + name + " '" + value + "'\n";
  for (const auto& [name, value] : state.tensors) out += "  " + name + " " + text_of(value) + "\n";
  return out;
}

struct HyperText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return text_of(value); }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(const std::vector<double>& values) const {
    std::string out = "(";
    for (const double value : values) out += text_of(value) + ",";
    return out + ")";
  }
};

/// Every bit of a state. Equal texts mean equal states.
inline std::string text_of(const TrainState& state) {
  const Progress& p = state.progress;
  std::string out;
  for (const int64_t n : {p.step, p.epoch, p.step_in_epoch, p.samples, p.tokens}) {
    out += std::to_string(n) + " ";
  }
  out += "seed " + std::to_string(state.seed) + " rng " + text_of(state.rng) + "\n";
  for (const Parameter& item : state.model) out += item.name + " " + text_of(item.local) + "\n";
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    out += "group\n";
    for (const auto& [key, value] : group.hyper) {
      out += "  " + key + " " + std::visit(HyperText(), value) + "\n";
    }
    for (const auto& [name, slots] : group.parameters) {
      out += "  parameter " + name + "\n";
      for (const Parameter& s : slots) out += "    " + s.name + " " + text_of(s.local) + "\n";
    }
  }
  for (const double lr : state.base_lrs) out += "base_lr " + text_of(lr) + "\n";
  for (const double lr : state.lrs) out += "lr " + text_of(lr) + "\n";
  out += "schedule\n" + text_of(state.schedule);
  if (state.scaler) out += "scaler\n" + text_of(*state.scaler);
  for (const auto& [name, part] : state.sections) out += "part " + name + "\n" + text_of(part);
  for (const auto& [name, value] : state.provenance) out += "fact " + name + " " + value + "\n";
  for (const auto& [name, value] : state.metrics)
    out += "metric " + name + " " + text_of(value) + "\n";
  return out + state.recipe;
}

}  // namespace accel
