#include "models/activations.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

#include "kernels/gelu.h"
#include "kernels/linear_gelu.h"
#include "models/adapted_linear.h"
#include "runner/formats/hf_config.h"

namespace accel {
namespace {

/// Other names of the same functions.
constexpr std::pair<const char*, HfActivation> kSynonyms[] = {
    {"gelu_pytorch_tanh", HfActivation::kGeluTanh},
    {"gelu_fast", HfActivation::kGeluTanh},
    {"swish", HfActivation::kSilu}};

}  // namespace

at::Tensor activate(HfActivation activation, const at::Tensor& x) {
  switch (activation) {
    case HfActivation::kGelu:
      return at::gelu(x);
    case HfActivation::kGeluTanh:
      return gelu_tanh(x);
    case HfActivation::kSilu:
      return at::silu(x);
    case HfActivation::kTanh:
      return x.tanh();
    default:
      return x.relu();
  }
}

at::Tensor activate(HfActivation activation, AdaptedLinearImpl& layer, const at::Tensor& x) {
  if (activation == HfActivation::kGelu && !layer.is_adapted()) {
    return linear_gelu(x, layer.weight, layer.bias);
  }
  return activate(activation, layer.forward(x));
}

HfActivation activation_in(HfConfig& config, const char* key, HfActivation fallback) {
  if (!config.has(key)) return fallback;
  const std::string name = config.text(key, "");
  for (const auto& [activation, known] : EnumNames<HfActivation>::kValues) {
    if (name == known) return activation;
  }
  for (const auto& [known, activation] : kSynonyms) {
    if (name == known) return activation;
  }
  config.refuse("'" + config.path() + "' has the activation '" + name + "' for '" + key +
                "', which there is no function for");
  return fallback;
}

std::string config_name(HfActivation activation) {
  for (const auto& [known, name] : EnumNames<HfActivation>::kValues) {
    if (known == activation) return name;
  }
  return "";
}

}  // namespace accel
