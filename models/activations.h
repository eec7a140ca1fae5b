// Activation functions under the names that Hugging Face's configs give them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/batch.h"
#include "core/codec.h"

namespace accel {

class AdaptedLinearImpl;
class HfConfig;

enum class HfActivation { kGelu, kGeluTanh, kRelu, kSilu, kTanh };

template <>
struct EnumNames<HfActivation> {
  static constexpr std::pair<HfActivation, const char*> kValues[] = {
      {HfActivation::kGelu, "gelu"},
      {HfActivation::kGeluTanh, "gelu_new"},
      {HfActivation::kRelu, "relu"},
      {HfActivation::kSilu, "silu"},
      {HfActivation::kTanh, "tanh"}};
};

at::Tensor activate(HfActivation activation, const at::Tensor& x);
/// Of what the layer makes of `x`.
at::Tensor activate(HfActivation activation, AdaptedLinearImpl& layer, const at::Tensor& x);

/// The config's value for `key`, or the fallback; one that there is no function for is a problem
/// of the config.
HfActivation activation_in(HfConfig& config, const char* key, HfActivation fallback);

/// The name that configs have for it.
std::string config_name(HfActivation activation);

}  // namespace accel
