#include "models/layers/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/outer.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/hf/hf_config.h"

namespace accel {
namespace {

constexpr double kTurn = 2 * 3.14159265358979323846;

/// In single precision throughout, as in transformers.
float scaled_speed(const RopeOptions& options, float speed) {
  const auto factor = static_cast<float>(options.factor);
  if (options.scaling == RopeScaling::kNone) return speed;
  if (options.scaling == RopeScaling::kLinear) return speed / factor;
  const double trained = static_cast<double>(options.original_max_position_embeddings);
  const double length = kTurn / static_cast<double>(speed);  // wavelength in positions
  if (length > trained / options.low_factor) return speed / factor;
  if (length < trained / options.high_factor) return speed;
  const double smooth =
      (trained / length - options.low_factor) / (options.high_factor - options.low_factor);
  return static_cast<float>((1 - smooth) * speed / options.factor + smooth * speed);
}

RopeScaling scaling_named(HfConfig& config, const std::string& name) {
  if (name == "default") return RopeScaling::kNone;
  if (name == "linear") return RopeScaling::kLinear;
  if (name == "llama3") return RopeScaling::kLlama3;
  config.refuse(text("'{}' has the rope type '{}', only default, linear and llama3 are supported",
                     config.path(), name));
  return RopeScaling::kNone;
}

}  // namespace

Schema<RopeOptions> RopeOptions::schema() {
  return Schema<RopeOptions>()
      .field("theta", &RopeOptions::theta, "The longest wavelength in tokens, approximately.",
             more_than(1.0))
      .on_resume(Change::kImpossible)
      .hint_for({"rope_theta", "base"})
      .field("scaling", &RopeOptions::scaling,
             "How to see longer texts: all pairs slower, or, as Llama 3 does, the slow ones.")
      .on_resume(Change::kImpossible)
      .hint_for({"rope_type", "rope_scaling"})
      .field("factor", &RopeOptions::factor, "So much slower.", at_least(1.0))
      .on_resume(Change::kImpossible)
      .field("low_factor", &RopeOptions::low_factor,
             "Pairs with fewer turns in the trained context are slowed (llama3).", more_than(0.0))
      .on_resume(Change::kImpossible)
      .hint_for({"low_freq_factor"})
      .field("high_factor", &RopeOptions::high_factor,
             "Pairs with more turns in the trained context are left alone (llama3).",
             more_than(0.0))
      .on_resume(Change::kImpossible)
      .hint_for({"high_freq_factor"})
      .field("original_max_position_embeddings", &RopeOptions::original_max_position_embeddings,
             "Tokens of the texts before it was scaled (llama3).", at_least<int64_t>(1))
      .on_resume(Change::kImpossible)
      .renamed_from("trained_context");
}

RopeOptions RopeOptions::from_config(HfConfig& config) {
  HfConfig rope =
      config.section(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  RopeOptions options;
  options.theta = rope.number("rope_theta", config.number("rope_theta", options.theta));
  const std::string old_name = rope.text("type", "default");
  options.scaling = scaling_named(rope, rope.text("rope_type", old_name));
  rope.want("partial_rotary_factor", 1.0, "this model does not do");
  if (options.scaling != RopeScaling::kNone) options.factor = rope.number("factor", 1.0);
  if (options.scaling == RopeScaling::kLlama3) {
    options.low_factor = rope.number("low_freq_factor", options.low_factor);
    options.high_factor = rope.number("high_freq_factor", options.high_factor);
    options.original_max_position_embeddings =
        rope.integer("original_max_position_embeddings", options.original_max_position_embeddings);
  }
  // Other types than llama3 do not read them.
  rope.ignore(
      {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  if (rope.problems().empty()) rope.refuse_unknown_keys();
  for (const std::string& problem : rope.problems()) config.refuse(problem);
  return options;
}

void RopeOptions::to_config(nlohmann::json& config) const {
  nlohmann::json rope = {{"rope_type", "default"}, {"rope_theta", theta}};
  if (scaling != RopeScaling::kNone) {
    rope["rope_type"] = scaling == RopeScaling::kLinear ? "linear" : "llama3";
    rope["factor"] = factor;
  }
  if (scaling == RopeScaling::kLlama3) {
    rope["low_freq_factor"] = low_factor;
    rope["high_freq_factor"] = high_factor;
    rope["original_max_position_embeddings"] = original_max_position_embeddings;
  }
  config["rope_parameters"] = rope;
  config.erase("rope_scaling");
  config.erase("rope_theta");
}

Rope::Rope(const RopeOptions& options, int64_t width) {
  std::vector<float> speeds;
  for (int64_t i = 0; i < width / 2; ++i) {
    const float share = static_cast<float>(2 * i) / static_cast<float>(width);
    const float speed = 1.0F / std::pow(static_cast<float>(options.theta), share);
    speeds.push_back(scaled_speed(options, speed));
  }
  speeds_ = at::from_blob(speeds.data(), {width / 2}, at::dtype(at::kFloat)).clone();
}

RopeTurns Rope::turns(int64_t first, int64_t length, at::Device device) const {
  const at::Tensor speeds = speeds_.to(device);
  const at::Tensor half = at::outer(at::arange(first, first + length, speeds.options()), speeds);
  const at::Tensor angles = at::cat({half, half}, 1);
  return {angles.cos(), angles.sin()};
}

at::Tensor Rope::turn(const at::Tensor& x, const RopeTurns& turns) {
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  const at::Tensor turned = at::cat({halves[1].neg(), halves[0]}, -1);
  return x.mul(turns.cosines.to(x.scalar_type())).add(turned.mul(turns.sines.to(x.scalar_type())));
}

}  // namespace accel
