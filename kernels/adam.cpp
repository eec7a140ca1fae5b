#include "kernels/adam.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/cpu_target.h"
#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cuda_library.h"

namespace accel {
namespace {

constexpr int64_t kGrain = 32768;  // minimum elements per thread

bool is_dense_float(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.is_non_overlapping_and_dense();
}

bool takes(const AdamRule& rule, const AdamTensors& tensors) {
  return kernels() == Kernels::kFused && cpu_target() != CpuTarget::kAny && !rule.amsgrad &&
         !rule.maximize && !tensors.found_inf.defined() &&
         std::all_of(tensors.parameters.begin(), tensors.parameters.end(), is_dense_float) &&
         std::all_of(tensors.gradients.begin(), tensors.gradients.end(), is_dense_float);
}

/// All of one type on the device of the first, dense, for the kernel of a GPU.
bool takes_on_gpu(const AdamRule& rule, const AdamTensors& tensors) {
  if (tensors.parameters.empty() || rule.amsgrad || rule.maximize) return false;
  const at::Tensor& first = tensors.parameters.front();
  const auto is_like_first = [&](const at::Tensor& tensor) {
    return tensor.device() == first.device() && tensor.scalar_type() == first.scalar_type() &&
           is_for_cuda_kernels(tensor);
  };
  const auto are_like_first = [&](const std::vector<at::Tensor>& list) {
    return std::all_of(list.begin(), list.end(), is_like_first);
  };
  const auto is_step = [&](const at::Tensor& step) {
    return step.device() == first.device() && step.scalar_type() == at::kFloat;
  };
  return cuda_kernels(first.device()) && are_like_first(tensors.parameters) &&
         are_like_first(tensors.gradients) && are_like_first(tensors.averages) &&
         are_like_first(tensors.squares) &&
         std::all_of(tensors.steps.begin(), tensors.steps.end(), is_step);
}

void step_on_gpu(const AdamRule& rule, const AdamTensors& tensors) {
  const at::Tensor& first = tensors.parameters.front();
  CudaAdam by = {};
  by.parameter_type = by.moment_type = cuda_type(first);
  by.is_decoupled = rule.decoupled;
  by.lr = rule.lr;
  by.beta1 = rule.beta1;
  by.beta2 = rule.beta2;
  by.eps = rule.eps;
  by.weight_decay = rule.weight_decay;
  if (tensors.found_inf.defined()) by.skip = tensors.found_inf.const_data_ptr<float>();
  std::vector<CudaAdamTensor> list;
  for (size_t i = 0; i < tensors.parameters.size(); ++i) {
    list.push_back({.parameter = tensors.parameters[i].mutable_data_ptr(),
                    .gradient = tensors.gradients[i].const_data_ptr(),
                    .average = tensors.averages[i].mutable_data_ptr(),
                    .square = tensors.squares[i].mutable_data_ptr(),
                    .ema = nullptr,
                    .step = tensors.steps[i].const_data_ptr<float>(),
                    .count = tensors.parameters[i].numel()});
  }
  check_cuda_launch(first.device(), cuda_kernels(first.device())
                                        ->adam(&by, list.data(), static_cast<int64_t>(list.size()),
                                               current_cuda_stream(first.device())));
}

AdamFactors factors_of(const AdamRule& rule, double step) {
  AdamFactors by;
  (rule.decoupled ? by.decay : by.weight_decay) =
      static_cast<float>(rule.decoupled ? 1 - rule.lr * rule.weight_decay : rule.weight_decay);
  by.new_share = static_cast<float>(1 - rule.beta1);
  by.beta2 = static_cast<float>(rule.beta2);
  by.new_square_share = static_cast<float>(1 - rule.beta2);
  by.root_correction = static_cast<float>(std::sqrt(1 - std::pow(rule.beta2, step)));
  by.eps = static_cast<float>(rule.eps);
  by.step_size = static_cast<float>(rule.lr / (1 - std::pow(rule.beta1, step)));
  return by;
}

void update(const AdamFactors& by, const AdamTensors& tensors, size_t i) {
  float* parameter = tensors.parameters[i].mutable_data_ptr<float>();
  const float* gradient = tensors.gradients[i].const_data_ptr<float>();
  float* average = tensors.averages[i].mutable_data_ptr<float>();
  float* square = tensors.squares[i].mutable_data_ptr<float>();
  for_each_part(tensors.parameters[i].numel(), kGrain, [&](int64_t begin, int64_t end) {
    adam_cpu(by, {parameter + begin, gradient + begin, average + begin, square + begin},
             end - begin);
  });
}

void reference_step(const AdamRule& rule, const AdamTensors& tensors) {
  std::optional<at::Tensor> found_inf;
  if (tensors.found_inf.defined()) found_inf = tensors.found_inf;
  const auto run = [&](auto kernel) {
    kernel(tensors.parameters, tensors.gradients, tensors.averages, tensors.squares,
           tensors.largest_squares, tensors.steps, rule.lr, rule.beta1, rule.beta2,
           rule.weight_decay, rule.eps, rule.amsgrad, rule.maximize,
           /*grad_scale=*/std::optional<at::Tensor>(), found_inf);
  };
  if (rule.decoupled) return run([](auto&&... args) { at::_fused_adamw_(args...); });
  run([](auto&&... args) { at::_fused_adam_(args...); });
}

}  // namespace

void adam_step_(const AdamRule& rule, const AdamTensors& tensors) {
  if (takes_on_gpu(rule, tensors)) return step_on_gpu(rule, tensors);
  if (!takes(rule, tensors)) return reference_step(rule, tensors);
  AdamFactors by;
  float of_step = -1;  // the step count of `by`; most parameters share it
  for (size_t i = 0; i < tensors.parameters.size(); ++i) {
    const float step = *tensors.steps[i].const_data_ptr<float>();
    if (step != of_step) by = factors_of(rule, step);
    of_step = step;
    update(by, tensors, i);
  }
}

}  // namespace accel
