#include "models/layers/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/outer.h>

#include <algorithm>
#include <cmath>

#include "kernels/rotate_pairs.h"

namespace accel {
namespace {

constexpr double kTurn = 2 * 3.14159265358979323846;

/// Share of the unscaled speed of each pair, by the turns of a pair in the original context (YaRN,
/// Peng et al. 2023, arXiv:2309.00071, section 3.2).
class YarnRamp {
 public:
  YarnRamp(const RopeOptions& options, int64_t rotated) {
    const auto width = static_cast<double>(rotated);
    const auto pair_with = [&](double turns) {
      const double original = static_cast<double>(options.original_max_position_embeddings);
      return width * std::log(original / (turns * kTurn)) / (2 * std::log(options.theta));
    };
    low_ = pair_with(options.beta_fast), high_ = pair_with(options.beta_slow);
    if (options.truncate) low_ = std::floor(low_), high_ = std::ceil(high_);
    low_ = std::max(low_, 0.0), high_ = std::min(high_, width - 1);
    if (low_ == high_) high_ += 0.001;
  }

  float operator()(int64_t pair) const {
    const auto at = static_cast<float>(pair), low = static_cast<float>(low_);
    return 1 - std::clamp((at - low) / static_cast<float>(high_ - low_), 0.0F, 1.0F);
  }

 private:
  double low_, high_;
};

/// NTK-aware scaling of theta by the length of a sequence.
float dynamic_theta(const RopeOptions& options, int64_t rotated, int64_t length) {
  const auto theta = static_cast<float>(options.theta);
  const auto factor = static_cast<float>(options.factor);
  const auto original = static_cast<float>(options.original_max_position_embeddings);
  const float longer = std::max(static_cast<float>(length), original);
  const auto width = static_cast<double>(rotated);
  return theta * std::pow(factor * longer / original - (factor - 1),
                          static_cast<float>(width / (width - 2)));
}

}  // namespace

float llama3_speed(const RopeOptions& options, float speed) {
  const double original = static_cast<double>(options.original_max_position_embeddings);
  const double length = kTurn / static_cast<double>(speed);  // wavelength in positions
  if (length > original / options.low_factor) return speed / static_cast<float>(options.factor);
  if (length < original / options.high_factor) return speed;
  const double smooth =
      (original / length - options.low_factor) / (options.high_factor - options.low_factor);
  return static_cast<float>((1 - smooth) * speed / options.factor + smooth * speed);
}

double attention_factor_of(const RopeOptions& options) {
  if (options.attention_factor) return *options.attention_factor;
  if (options.factor <= 1) return 1;
  if (options.scaling == RopeScaling::kYarn) return 0.1 * std::log(options.factor) + 1;
  if (options.scaling != RopeScaling::kLongRope) return 1;
  const double original = static_cast<double>(options.original_max_position_embeddings);
  return std::sqrt(1 + std::log(options.factor) / std::log(original));
}

namespace {

/// Radians per position of each pair of `rotated` elements, in single precision throughout, as in
/// transformers. `divisors`: of longrope, one for each pair.
at::Tensor speeds_of(const RopeOptions& options, int64_t rotated, float theta,
                     const std::vector<double>& divisors = {}) {
  std::vector<float> speeds;
  const YarnRamp ramp(options, rotated);
  const auto factor = static_cast<float>(options.factor);
  for (int64_t i = 0; i < rotated / 2; ++i) {
    const float share = static_cast<float>(2 * i) / static_cast<float>(rotated);
    const float period = std::pow(theta, share);
    float speed = 1.0F / period;
    if (options.scaling == RopeScaling::kLinear) speed /= factor;
    if (options.scaling == RopeScaling::kLlama3) speed = llama3_speed(options, speed);
    if (options.scaling == RopeScaling::kYarn) {
      speed = 1.0F / (factor * period) * (1 - ramp(i)) + speed * ramp(i);
    }
    if (!divisors.empty()) {
      speed = 1.0F / (static_cast<float>(divisors[static_cast<size_t>(i)]) * period);
    }
    speeds.push_back(speed);
  }
  return at::from_blob(speeds.data(), {rotated / 2}, at::dtype(at::kFloat)).clone();
}

}  // namespace

Rope::Rope(const RopeOptions& options, int64_t width)
    : options_(options),
      rotated_(static_cast<int64_t>(static_cast<double>(width) * options.partial_rotary_factor)),
      attention_factor_(attention_factor_of(options)) {
  const auto theta = static_cast<float>(options.theta);
  const bool is_long_rope = options.scaling == RopeScaling::kLongRope;
  speeds_ = is_long_rope ? speeds_of(options, rotated_, theta, options.short_factor)
                         : speeds_of(options, rotated_, theta);
  if (is_long_rope) long_speeds_ = speeds_of(options, rotated_, theta, options.long_factor);
}

bool Rope::changes_between(int64_t length, int64_t other) const {
  const int64_t original = options_.original_max_position_embeddings;
  if (options_.scaling == RopeScaling::kLongRope) return (length > original) != (other > original);
  return options_.scaling == RopeScaling::kDynamic && length != other &&
         std::max(length, other) > original;
}

const at::Tensor& Rope::speeds_on(at::Device device) const {
  if (!moved_.defined() || moved_.device() != device) moved_ = speeds_.to(device);
  return moved_;
}

RopeTurns Rope::turns(int64_t first, int64_t length, int64_t longest, at::Device device) const {
  at::Tensor speeds = speeds_on(device);
  if (changes_between(0, longest)) {
    const at::Tensor longer =
        long_speeds_.defined()
            ? long_speeds_
            : speeds_of(options_, rotated_, dynamic_theta(options_, rotated_, longest));
    speeds = longer.to(device);
  }
  return turns_of(at::outer(at::arange(first, first + length, speeds.options()), speeds));
}

RopeTurns Rope::turns_of_rows(const at::Tensor& positions) const {
  const at::Tensor& speeds = speeds_on(positions.device());
  return turns_of(positions.to(at::kFloat).unsqueeze(1).unsqueeze(3).mul(speeds));
}

RopeTurns Rope::turns_of(const at::Tensor& angles_of_pairs) const {
  const at::Tensor angles = at::cat({angles_of_pairs, angles_of_pairs}, -1);
  if (attention_factor_ == 1) return {angles.cos(), angles.sin()};
  return {angles.cos().mul(attention_factor_), angles.sin().mul(attention_factor_)};
}

at::Tensor Rope::turn(const at::Tensor& x, const RopeTurns& turns) {
  if (!turns.cosines.defined()) return x;
  return rotate_pairs(x, turns.cosines, turns.sines);
}

}  // namespace accel
