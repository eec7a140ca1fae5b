// Activation functions by their names in Hugging Face's configs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/api/batch.h"
#include "core/recipe/codec.h"

namespace accel {

class AdaptedLinearImpl;
class HfConfig;

enum class HfActivation { kGelu, kGeluTanh, kQuickGelu, kRelu, kSilu, kTanh };

template <>
struct EnumNames<HfActivation> {
  static constexpr std::pair<HfActivation, const char*> kValues[] = {
      {HfActivation::kGelu, "gelu"},
      {HfActivation::kGeluTanh, "gelu_new"},
      {HfActivation::kQuickGelu, "quick_gelu"},
      {HfActivation::kRelu, "relu"},
      {HfActivation::kSilu, "silu"},
      {HfActivation::kTanh, "tanh"}};
};

at::Tensor activate(HfActivation activation, const at::Tensor& x);
/// activate(gate) up, elementwise (Shazeer 2020, arXiv:2002.05202).
at::Tensor gated(HfActivation activation, const at::Tensor& gate, const at::Tensor& up);
/// The activation of the layer's output for `x`.
at::Tensor activate(HfActivation activation, AdaptedLinearImpl& layer, const at::Tensor& x);

/// Two linear layers with the activation between them.
at::Tensor feed_forward(HfActivation activation, AdaptedLinearImpl& in, AdaptedLinearImpl& out,
                        const at::Tensor& x);

/// The config's value of `key`, or the fallback; an unknown name becomes a problem of the config.
HfActivation activation_in(HfConfig& config, const char* key, HfActivation fallback);

/// The name in configs.
std::string config_name(HfActivation activation);

}  // namespace accel
