#include "models/layers/activations.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

#include "core/base/text.h"
#include "kernels/feed_forward.h"
#include "kernels/gelu.h"
#include "kernels/swiglu.h"
#include "models/hf/hf_config.h"
#include "models/layers/adapted_linear.h"

namespace accel {
namespace {

/// Synonyms.
constexpr std::pair<const char*, HfActivation> kSynonyms[] = {
    {"gelu_pytorch_tanh", HfActivation::kGeluTanh},
    {"gelu_fast", HfActivation::kGeluTanh},
    {"swish", HfActivation::kSilu}};

/// Of the approximation x sigmoid(slope x) of GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415).
constexpr double kQuickGeluSlope = 1.702;

}  // namespace

at::Tensor activate(HfActivation activation, const at::Tensor& x) {
  switch (activation) {
    case HfActivation::kGelu:
      return at::gelu(x);
    case HfActivation::kGeluTanh:
      return gelu_tanh(x);
    case HfActivation::kQuickGelu:
      return x.mul(x.mul(kQuickGeluSlope).sigmoid());
    case HfActivation::kSilu:
      return at::silu(x);
    case HfActivation::kTanh:
      return x.tanh();
    default:
      return x.relu();
  }
}

at::Tensor gated(HfActivation activation, const at::Tensor& gate, const at::Tensor& up) {
  if (activation == HfActivation::kSilu) return swiglu(gate, up);
  return activate(activation, gate).mul(up);
}

at::Tensor activate(HfActivation activation, AdaptedLinearImpl& layer, const at::Tensor& x) {
  if (activation == HfActivation::kGelu && layer.is_plain()) {
    return linear_gelu(x, layer.weight, layer.bias);
  }
  return activate(activation, layer.forward(x));
}

at::Tensor feed_forward(HfActivation activation, AdaptedLinearImpl& in, AdaptedLinearImpl& out,
                        const at::Tensor& x) {
  const bool is_gelu = activation == HfActivation::kGelu || activation == HfActivation::kGeluTanh;
  if (is_gelu && in.is_plain() && out.is_plain() && !out.is_divided()) {
    const FeedForward layers = {
        {in.weight, in.bias},
        {out.weight, out.bias},
        activation == HfActivation::kGelu ? GeluForm::kErf : GeluForm::kTanh};
    if (is_narrow_feed_forward(x, layers)) return feed_forward(x, layers);
  }
  return out.forward(activate(activation, in, x));
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
  config.refuse(text("'{}' has the activation '{}' for '{}', which is not supported", config.path(),
                     name, key));
  return fallback;
}

std::string config_name(HfActivation activation) {
  for (const auto& [known, name] : EnumNames<HfActivation>::kValues) {
    if (known == activation) return name;
  }
  return "";
}

}  // namespace accel
