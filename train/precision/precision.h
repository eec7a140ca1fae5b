// Mixed precision: autocast of the forward pass, and loss scaling for fp16.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <memory>
#include <optional>
#include <span>

#include "core/api/batch.h"
#include "train/recipe/mixed_precision.h"

namespace accel {

/// Enables autocast during its lifetime. The outermost scope clears the cache of cast weights at
/// its end. For one thread; scopes nest.
class AutocastScope {
 public:
  /// `dtype` null: changes nothing.
  AutocastScope(at::DeviceType device, std::optional<at::ScalarType> dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::DeviceType device_;
  bool active_;
  bool was_enabled_ = false;
  at::ScalarType old_dtype_ = at::kFloat;
};

/// Usage per step: autocast() around the forward pass; scale(loss).backward(); unscale() once per
/// optimizer step, before clipping; the optimizer's step if unscale() returned true; update().
class Precision {
 public:
  virtual ~Precision() = default;

  virtual AutocastScope autocast() const = 0;
  /// The loss to call backward() on.
  virtual at::Tensor scale(const at::Tensor& loss) { return loss; }
  /// Divides the gradients by the scale, in place. False: a gradient is not finite, and the
  /// optimizer must not step. `share` reduces the flag of this, float32 [1], over the ranks that
  /// hold shares of the gradients.
  virtual bool unscale(std::span<const Parameter> /*parameters*/,
                       c10::function_ref<void(const at::Tensor& found_inf)> /*share*/) {
    return true;
  }
  /// Adapts the scale by the result of unscale().
  virtual void update() {}
  /// The current loss scale; 1 without scaling.
  virtual double loss_scale() const { return 1; }
  /// Named as in Python's GradScaler; empty without scaling. Delayed scaling of fp8 adds tensors.
  virtual void save(StateDict& /*state*/) const {}
  /// Throws CheckpointError when a number is missing.
  virtual void load(const StateDict& /*state*/) {}
};

/// Without `fp8` scales: autocast of bf16.
std::unique_ptr<Precision> make_precision(MixedPrecision precision, at::Device device = at::kCPU,
                                          const ScalerOptions& scaler = {});

}  // namespace accel
