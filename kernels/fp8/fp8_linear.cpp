#include "kernels/fp8/fp8_linear.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/fp8/fp8_matrix.h"
#include "kernels/memory/stored_outputs.h"
#include "kernels/without_autocast.h"

namespace accel {
namespace {

enum Operand : size_t { kInputOperand, kWeightOperand, kGradientOperand };

bool is_by_row(const Fp8Layer& layer) {
  return layer.recipe == Fp8Recipe::kRowwise || layer.recipe == Fp8Recipe::kRowwiseGwHp;
}

at::ScalarType type_of(const Fp8Layer& layer, Operand operand) {
  const Fp8Format format = layer.recipe == Fp8Recipe::kTensorwise ? Fp8Format::kHybrid
                           : is_by_row(layer)                     ? Fp8Format::kE4m3
                                                                  : layer.format;
  return DelayedScales::type_of(static_cast<int64_t>(operand), format);
}

/// Records the magnitude of an operand for the scale of later steps. One that is not finite is left
/// out: the overflow is of this step.
void record(const at::Tensor& x, const DelayedScale& delayed) {
  const at::Tensor amax = x.abs().amax().to(at::kFloat);
  const at::Tensor finite = at::where(amax.isfinite(), amax, at::zeros_like(amax));
  delayed.amax.copy_(at::maximum(delayed.amax, finite));
}

/// `x` in fp8; a scale per row if `by_row`.
Fp8Matrix cast(const at::Tensor& x, const Fp8Layer& layer, Operand operand, bool by_row) {
  const at::ScalarType type = type_of(layer, operand);
  if (!layer.delayed) return to_fp8(x, type, by_row, is_by_row(layer));
  const at::Tensor& scale = (*layer.delayed)[operand].scale;
  return {cast_to_fp8(x, scale, type).contiguous(), scale.reciprocal()};
}

/// A weight; its gathered values have a scale.
struct Fp8Weight {
  at::Tensor tensor;
  at::Tensor inverse_scale;  ///< undefined: the tensor is the weight itself
};

/// With one scale, or by row with one each.
Fp8Matrix cast(const Fp8Weight& weight, const Fp8Layer& layer, bool by_row) {
  if (!weight.inverse_scale.defined()) return cast(weight.tensor, layer, kWeightOperand, by_row);
  return {weight.tensor.to(type_of(layer, kWeightOperand)).contiguous(), weight.inverse_scale};
}

/// x [rows, inputs] times the transpose of weight [outputs, inputs].
at::Tensor output(const at::Tensor& x, const Fp8Weight& weight, const Fp8Layer& layer) {
  if (!layer.fprop) return x.mm(weight.tensor.t());
  const bool by_row = is_by_row(layer);
  return fp8_product(cast(x, layer, kInputOperand, by_row), cast(weight, layer, by_row),
                     x.scalar_type(), /*fast=*/true);
}

/// dy [rows, outputs] times weight [outputs, inputs].
at::Tensor input_gradient(const at::Tensor& dy, const Fp8Weight& weight, const Fp8Layer& layer) {
  if (!layer.dgrad) return dy.mm(weight.tensor);
  const bool by_row = is_by_row(layer);
  const Fp8Matrix gradient = cast(dy, layer, kGradientOperand, by_row);
  // A row of the transpose has a scale in rowwise, the weight in the others.
  const Fp8Matrix columns = layer.recipe == Fp8Recipe::kRowwise
                                ? cast(weight.tensor.t(), layer, kWeightOperand, /*by_row=*/true)
                                : transposed(cast(weight, layer, /*by_row=*/false));
  return fp8_product(gradient, columns, dy.scalar_type(), /*fast=*/false);
}

bool has_fp8_weight_gradient(const Fp8Layer& layer) {
  return layer.wgrad && layer.recipe != Fp8Recipe::kRowwiseGwHp;
}

/// The transpose of dy [rows, outputs] times x [rows, inputs].
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, const Fp8Layer& layer) {
  if (!has_fp8_weight_gradient(layer)) return dy.t().mm(x);
  const bool by_row = is_by_row(layer);
  const Fp8Matrix gradient = cast(dy.t(), layer, kGradientOperand, by_row);
  const Fp8Matrix input = cast(x.t(), layer, kInputOperand, by_row);
  return fp8_product(with_padded_columns(gradient), with_padded_columns(input), dy.scalar_type(),
                     /*fast=*/false);
}

/// Keeps a layer until its backward pass.
struct SavedLayer : torch::CustomClassHolder {
  explicit SavedLayer(std::shared_ptr<const Fp8Layer> saved) : layer(std::move(saved)) {}
  std::shared_ptr<const Fp8Layer> layer;
};

/// Of matrices x [rows, inputs] and weight [outputs, inputs] of one type.
class Fp8LinearFunction : public torch::autograd::Function<Fp8LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const std::shared_ptr<const Fp8Layer>& layer,
                            bool is_training) {
    context->saved_data["layer"] =
        c10::IValue::make_capsule(c10::make_intrusive<SavedLayer>(layer));
    const at::Tensor scale = layer->gathered ? layer->gathered->inverse_scale : at::Tensor();
    context->save_for_backward({x, weight, scale});
    const WithoutAutocast scope(x.device().type());
    if (layer->delayed && is_training) {
      record(x, (*layer->delayed)[kInputOperand]);
      record(weight, (*layer->delayed)[kWeightOperand]);
    }
    return store_output([&] { return output(x, {weight, scale}, *layer); });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["layer"].toCapsule();
    const Fp8Layer& layer = *static_cast<const SavedLayer&>(*capsule).layer;
    const at::Tensor dy = gradients[0].contiguous();
    const WithoutAutocast scope(dy.device().type());
    if (layer.delayed) record(dy, (*layer.delayed)[kGradientOperand]);
    at::Tensor dx, dw;
    if (context->needs_input_grad(0)) dx = input_gradient(dy, {saved[1], saved[2]}, layer);
    if (context->needs_input_grad(1)) dw = weight_gradient(dy, saved[0], layer);
    return {dx, dw, at::Tensor(), at::Tensor()};
  }
};

/// The rows of a batch are the inner dimension of the weight's gradient.
void check_rows(int64_t rows, const Fp8Layer& layer) {
  if (layer.pad_inner_dim || rows % kFp8Multiple == 0 || !has_fp8_weight_gradient(layer)) return;
  throw Error(
      ExitCode::kRecipe,
      text("a micro-batch has {} rows, and the gradient of a weight in fp8 needs a multiple "
           "of {}",
           rows, kFp8Multiple),
      "set 'accelerator.fp8.pad_inner_dim: true', or another 'train.micro_batch'");
}

/// As autocast casts the arguments of a linear layer.
at::Tensor as_autocast(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return x;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
}

}  // namespace

at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight,
                      const std::shared_ptr<const Fp8Layer>& layer) {
  if (x.numel() == 0) return at::linear(x, weight);  // an expert without tokens
  const at::Tensor input = as_autocast(x), cast_weight = as_autocast(weight);
  const at::Tensor rows = input.reshape({-1, input.size(-1)});
  const bool is_training = at::GradMode::is_enabled();
  if (is_training) check_rows(rows.size(0), *layer);
  const at::Tensor y = Fp8LinearFunction::apply(rows, cast_weight, layer, is_training);
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

}  // namespace accel
