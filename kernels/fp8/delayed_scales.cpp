#include "kernels/fp8/delayed_scales.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/fp8/fp8_matrix.h"

namespace accel {
namespace {

constexpr auto kUpdates = "updates";

std::string history_name(const std::string& layer) {
  return "history/" + layer;
}

std::string scale_name(const std::string& layer) {
  return "scale/" + layer;
}

}  // namespace

DelayedScales::DelayedScales(const DelayedOptions& options, std::vector<std::string> layers,
                             at::Device device)
    : options_(options), layers_(std::move(layers)) {
  const auto operands = static_cast<int64_t>(layers_.size()) * kFp8Operands;
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  history_ = at::zeros({options_.amax_history_len, operands}, floats);
  scales_ = at::ones({operands}, floats);
  most_ = at::empty({operands}, floats);
  for (int64_t i = 0; i < operands; ++i) {
    most_.select(0, i).fill_(fp8_max(type_of(i % kFp8Operands, options_.format)));
  }
}

at::ScalarType DelayedScales::type_of(int64_t operand, Fp8Format format) {
  const bool is_gradient = operand == kFp8Operands - 1;
  return is_gradient && format == Fp8Format::kHybrid ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}

DelayedScalesOfLayer DelayedScales::of_layer(size_t layer) const {
  DelayedScalesOfLayer out;
  for (int64_t i = 0; i < kFp8Operands; ++i) {
    const int64_t at = static_cast<int64_t>(layer) * kFp8Operands + i;
    out[static_cast<size_t>(i)] = {scales_.select(0, at), history_.select(0, 0).select(0, at)};
  }
  return out;
}

void DelayedScales::update(c10::function_ref<void(const at::Tensor& amax)> reduce) {
  const c10::NoGradGuard no_grad;
  const at::Tensor recent = history_.select(0, 0);
  reduce(recent);
  if (++updates_ % options_.interval == 0) {
    const bool of_all = options_.amax_compute_algo == AmaxAlgorithm::kMax;
    const at::Tensor amax = of_all ? history_.amax(0) : recent;
    at::Tensor next = most_.div(amax).div(std::exp2(static_cast<double>(options_.margin)));
    next = next.clamp_max(std::numeric_limits<float>::max());  // of an amax near 0
    scales_.copy_(at::where(amax.gt(0), next, scales_));
  }
  history_.copy_(history_.roll({-1}, {0}));
  recent.zero_();
}

void DelayedScales::save(StateDict& state) const {
  state.numbers[kUpdates] = static_cast<double>(updates_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i) * kFp8Operands;
    state.tensors[history_name(layers_[i])] = history_.narrow(1, first, kFp8Operands).clone();
    state.tensors[scale_name(layers_[i])] = scales_.narrow(0, first, kFp8Operands).clone();
  }
}

std::vector<std::string> DelayedScales::load(const StateDict& state) {
  std::vector<std::string> absent;
  const auto updates = state.numbers.find(kUpdates);
  if (updates != state.numbers.end()) updates_ = static_cast<int64_t>(updates->second);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto history = state.tensors.find(history_name(layers_[i]));
    const auto scale = state.tensors.find(scale_name(layers_[i]));
    if (history == state.tensors.end() || scale == state.tensors.end()) {
      absent.push_back(layers_[i]);
      continue;
    }
    const int64_t first = static_cast<int64_t>(i) * kFp8Operands;
    const at::Tensor own = history_.narrow(1, first, kFp8Operands);
    if (history->second.sizes() != own.sizes() || scale->second.numel() != kFp8Operands) {
      throw CheckpointError(text("the fp8 history of '{}' has the shape {}, not {}", layers_[i],
                                 shape_text(history->second), shape_text(own)),
                            "restore 'accelerator.fp8.amax_history_len' of the checkpoint");
    }
    own.copy_(history->second);
    scales_.narrow(0, first, kFp8Operands).copy_(scale->second);
  }
  return absent;
}

}  // namespace accel
