// Mixed precision: which casts the forward pass makes, and loss scaling for fp16.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>

#include "core/batch.h"
#include "core/schema.h"

namespace accel {

/// Accelerate's words.
enum class MixedPrecision { kNo, kFp16, kBf16 };

template <>
struct EnumNames<MixedPrecision> {
  static constexpr std::pair<MixedPrecision, const char*> kValues[] = {
      {MixedPrecision::kNo, "no"},
      {MixedPrecision::kFp16, "fp16"},
      {MixedPrecision::kBf16, "bf16"}};
};

/// How the loss scale of fp16 adapts; PyTorch's names and defaults.
struct ScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;

  bool operator==(const ScalerOptions&) const = default;
  static Schema<ScalerOptions> schema();
};

/// While it lives, operators cast as autocast does. Forget the cast weights when the outermost one
/// ends. To be used on one thread, last made first destroyed.
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

/// One step's use: autocast() around the forward pass; scale(loss).backward(); unscale() once per
/// optimizer step, before clipping; the optimizer's step only when unscale() said true; update().
class Precision {
 public:
  virtual ~Precision() = default;

  virtual AutocastScope autocast() const = 0;
  /// The loss to call backward() on.
  virtual at::Tensor scale(const at::Tensor& loss) { return loss; }
  /// Gives the gradients their true size, in place. False: one is not finite, so the optimizer
  /// must not step.
  virtual bool unscale(std::span<const NamedTensor> /*parameters*/) { return true; }
  /// Adapts the scale to what unscale() found.
  virtual void update() {}
  /// The factor in use; 1 without scaling.
  virtual double loss_scale() const { return 1; }
  /// As Python's GradScaler names them; nothing without scaling.
  virtual void save(StateDict& /*state*/) const {}
  /// Throws CheckpointError when a number is missing.
  virtual void load(const StateDict& /*state*/) {}
};

std::unique_ptr<Precision> make_precision(MixedPrecision precision, at::Device device = at::kCPU,
                                          const ScalerOptions& scaler = {});

}  // namespace accel
