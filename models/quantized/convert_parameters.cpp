#include "models/quantized/convert_parameters.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <set>

#include "core/api/model.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/module_state.h"

namespace accel {
namespace {

/// Parameters that `dtype` does not change.
struct KeptParameters {
  std::set<const void*> quantized;  ///< with their scales
  std::set<const void*> in_fp32;    ///< of layers that compute in float32
};

KeptParameters kept_parameters(Model& model) {
  const auto add = [](const std::vector<at::Tensor>& tensors, std::set<const void*>& to) {
    for (const at::Tensor& each : tensors) to.insert(each.unsafeGetTensorImpl());
  };
  KeptParameters out;
  for (const auto& module : model.module().modules()) {
    const FrozenWeight* frozen = nullptr;
    if (const auto* layer = dynamic_cast<const AdaptedLinearImpl*>(module.get())) {
      if (layer->is_in_fp32()) add(layer->parameters(), out.in_fp32);
      frozen = layer->frozen();
    } else if (const auto* tied = dynamic_cast<const TiedHeadImpl*>(module.get())) {
      frozen = tied->frozen();
    }
    if (frozen) add(frozen->tensors(), out.quantized);
  }
  return out;
}

}  // namespace

void convert_parameters(Model& model, std::optional<at::ScalarType> dtype) {
  const at::NoGradGuard no_grad;
  const KeptParameters kept = kept_parameters(model);
  for (Parameter& item : parameters_of(model)) {
    const at::Tensor& weight = item.local;
    materialize(weight);
    const void* const key = weight.unsafeGetTensorImpl();
    if (!dtype || !at::isFloatingType(weight.scalar_type()) || kept.quantized.contains(key)) {
      continue;
    }
    weight.set_data(weight.to(kept.in_fp32.contains(key) ? at::kFloat : *dtype));
  }
}

}  // namespace accel
