// The linear layer in fp8.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "kernels/fp8/delayed_scales.h"
#include "kernels/fp8/fp8_recipe.h"
#include "kernels/fp8/gathered_weight.h"

namespace accel {

/// How a layer computes in fp8.
struct Fp8Layer {
  Fp8Recipe recipe = Fp8Recipe::kTensorwise;
  bool fprop = true, dgrad = true, wgrad = true;  ///< whether the product is in fp8
  bool pad_inner_dim = true;              ///< pads rows of a batch to a multiple of kFp8Multiple
  bool in_evaluation = true;              ///< whether forward passes in evaluation mode are in fp8
  Fp8Format format = Fp8Format::kHybrid;  ///< of Fp8Recipe::kDelayed
  std::optional<DelayedScalesOfLayer> delayed = {};  ///< likewise
  std::shared_ptr<GatheredWeight> gathered = {};     ///< of kTensorwise; null: none
};

/// x [..., inputs] times the transpose of `weight` [outputs, inputs], both cast to autocast's type,
/// then to fp8; the result has autocast's type. tensorwise, rowwise and rowwise_gw_hp compute as
/// torchao's Float8Linear, delayed as Transformer Engine's Linear. Training passes of delayed
/// scaling record magnitudes. Sizes are multiples of kFp8Multiple. Throws Error (kRecipe) for
/// a training pass whose number of rows is not, without padding.
at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight,
                      const std::shared_ptr<const Fp8Layer>& layer);

}  // namespace accel
