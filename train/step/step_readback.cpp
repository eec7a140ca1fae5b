#include "train/step/step_readback.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

#include "core/api/expert_parallel.h"
#include "train/job/job.h"
#include "train/job/torch_setup.h"

namespace accel {
namespace {

/// Whether one process computes each step on its device alone, by one update that may be skipped.
bool is_supported(const Job& job) {
  const AcceleratorSection& accelerator = job.recipe.accelerator;
  const MixedPrecision precision = accelerator.mixed_precision;
  if (job.device.is_cpu() || job.num_ranks > 1 || job.optimizers.size() > 1) return false;
  if (precision == MixedPrecision::kFp16 || precision == MixedPrecision::kFp8) return false;
  if (job.swapper || accelerator.reduction != Reduction::kBucketed) return false;
  const auto* experts = dynamic_cast<const ExpertParallel*>(job.model.get());
  if (experts && experts->num_experts() > 0) return false;
  const std::vector<Parameter>& parameters = job.optimizers.front().parameters;
  return std::all_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
    return parameter.local.device() == job.device;
  });
}

}  // namespace

std::unique_ptr<StepReadback> StepReadback::make(const Job& job) {
  if (!is_supported(job)) return nullptr;
  const auto* optimizer = dynamic_cast<SkipsUpdates*>(job.optimizers.front().optimizer);
  if (!optimizer || !optimizer->can_skip()) return nullptr;
  return std::unique_ptr<StepReadback>(new StepReadback(job));
}

StepReadback::StepReadback(const Job& job)
    : job_(job),
      device_(job.device),
      numbers_(at::zeros({2}, at::TensorOptions(device_).dtype(at::kDouble))),
      found_inf_(at::zeros({}, at::TensorOptions(device_).dtype(at::kFloat))),
      one_(at::ones({1}, at::TensorOptions(device_).dtype(at::kFloat))),
      slots_{slot(), slot()} {
  optimizer().set_found_inf(found_inf_);
}

StepReadback::~StepReadback() {
  optimizer().set_found_inf({});
}

SkipsUpdates& StepReadback::optimizer() const {
  return dynamic_cast<SkipsUpdates&>(*job_.optimizers.front().optimizer);
}

StepReadback::Slot StepReadback::slot() const {
  return {{}, {}, at::zeros({2}, at::kDouble).pin_memory(), c10::Event(device_.type())};
}

void StepReadback::begin() {
  if (diverged_) {
    const Slot& last = slot_of(read_ - 1);
    set_generator_state(last.generator);
    set_device_generator_state(device_, last.device_generator);
    return;
  }
  Slot& next = slot_of(launched_);
  next.generator = generator_state();
  next.device_generator = device_generator_state(device_);
}

void StepReadback::launch(const at::Tensor& loss, const at::Tensor& grad_norm) {
  const c10::NoGradGuard no_grad;
  optimizer().set_found_inf(found_inf_);
  numbers_.select(0, 0).copy_(loss, /*non_blocking=*/true);
  numbers_.select(0, 1).copy_(grad_norm, /*non_blocking=*/true);
  // NaN for numbers that are not finite. The operator on the numbers themselves would compare them
  // in single precision.
  const at::Tensor zeros = numbers_.mul(0);
  at::_amp_foreach_non_finite_check_and_unscale_(zeros, found_inf_, one_);
  Slot& next = slot_of(launched_++);
  next.numbers.copy_(numbers_, /*non_blocking=*/true);
  next.copied.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

StepNumbers StepReadback::read() {
  Slot& last = slot_of(read_++);
  last.copied.synchronize();
  const double* numbers = last.numbers.const_data_ptr<double>();
  const StepNumbers found{.loss = numbers[0], .grad_norm = numbers[1]};
  if (std::isfinite(found.loss) && std::isfinite(found.grad_norm)) return found;
  if (!diverged_) optimizer().forget_skipped(launched_ - read_ + 1);
  diverged_ = found;
  return found;
}

}  // namespace accel
