#include "train/precision/precision.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

AutocastScope::AutocastScope(at::DeviceType device, std::optional<at::ScalarType> dtype)
    : device_(device), active_(dtype.has_value()) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  old_dtype_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *dtype);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  // The cache of cast weights is outdated after the next update.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(device_, old_dtype_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

namespace {

/// No loss scaling: fp32, and bf16 with its wide range.
class Unscaled final : public Precision {
 public:
  Unscaled(at::DeviceType device, std::optional<at::ScalarType> dtype)
      : device_(device), dtype_(dtype) {}

  AutocastScope autocast() const override { return {device_, dtype_}; }

 private:
  at::DeviceType device_;
  std::optional<at::ScalarType> dtype_;
};

/// fp16: scales the loss so that small gradients do not underflow; torch.amp.GradScaler.
class DynamicScale final : public Precision {
 public:
  DynamicScale(at::Device device, const ScalerOptions& options)
      : device_(device),
        options_(options),
        scale_(at::full({1}, options.init_scale, at::TensorOptions(device).dtype(at::kFloat))),
        growth_tracker_(at::zeros({1}, at::TensorOptions(device).dtype(at::kInt))),
        found_inf_(at::zeros({1}, at::TensorOptions(device).dtype(at::kFloat))) {}

  AutocastScope autocast() const override { return {device_.type(), at::kHalf}; }

  at::Tensor scale(const at::Tensor& loss) override { return loss.mul(scale_.squeeze(0)); }

  bool unscale(std::span<const Parameter> parameters,
               c10::function_ref<void(const at::Tensor& found_inf)> share) override {
    const c10::NoGradGuard no_grad;
    found_inf_.zero_();
    std::vector<at::Tensor> gradients;
    for (const Parameter& parameter : parameters) {
      if (parameter.local.grad().defined()) gradients.push_back(parameter.local.grad());
    }
    if (gradients.empty()) return true;  // on all ranks
    // In double as GradScaler, for the same inverse of scales that are not powers of two.
    const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse);
    share(found_inf_);
    return found_inf_.item<float>() == 0;
  }

  void update() override {
    at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
  }

  double loss_scale() const override { return scale_.item<float>(); }

  void save(StateDict& state) const override {
    state.numbers["scale"] = loss_scale();
    state.numbers["growth_factor"] = options_.growth_factor;
    state.numbers["backoff_factor"] = options_.backoff_factor;
    state.numbers["growth_interval"] = static_cast<double>(options_.growth_interval);
    state.numbers["_growth_tracker"] = growth_tracker_.item<int>();
  }

  void load(const StateDict& state) override {
    scale_.fill_(saved(state, "scale"));
    growth_tracker_.fill_(saved(state, "_growth_tracker"));
  }

 private:
  static double saved(const StateDict& state, const std::string& name) {
    const auto found = state.numbers.find(name);
    if (found == state.numbers.end()) {
      throw CheckpointError(text("the gradient scaler's state has no '{}'", name));
    }
    return found->second;
  }

  at::Device device_;
  ScalerOptions options_;
  at::Tensor scale_;           // [1], float32
  at::Tensor growth_tracker_;  // [1], int32: consecutive steps without overflow
  at::Tensor found_inf_;       // [1], float32: 1 after an overflow
};

}  // namespace

std::unique_ptr<Precision> make_precision(MixedPrecision precision, at::Device device,
                                          const ScalerOptions& scaler) {
  switch (precision) {
    case MixedPrecision::kNo:
      return std::make_unique<Unscaled>(device.type(), std::nullopt);
    case MixedPrecision::kBf16:
    case MixedPrecision::kFp8:
      return std::make_unique<Unscaled>(device.type(), at::kBFloat16);
    case MixedPrecision::kFp16:
      return std::make_unique<DynamicScale>(device, scaler);
  }
  throw std::logic_error("unknown mixed precision");
}

}  // namespace accel
