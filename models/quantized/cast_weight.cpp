#include "models/quantized/cast_weight.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "kernels/choice.h"
#include "kernels/memory/stored_outputs.h"
#include "kernels/product_type.h"
#include "kernels/without_autocast.h"

namespace accel {
namespace {

constexpr auto kFp8 = at::kFloat8_e4m3fn;

/// The type in memory of bits of `type`.
at::ScalarType memory_type(at::ScalarType type) {
  return type == kFp8 ? at::kByte : type;
}

class CastLinear : public torch::autograd::Function<CastLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& stored) {
    context->save_for_backward({stored});
    const WithoutAutocast scope(x.device().type());
    return store_output([&] { return at::linear(x, uncast_weight(stored, x.scalar_type())); });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor stored = context->get_saved_variables().front();
    const at::Tensor& dy = gradients[0];
    const WithoutAutocast scope(dy.device().type());
    return {dy.matmul(uncast_weight(stored, dy.scalar_type())), at::Tensor()};
  }
};

}  // namespace

at::Tensor empty_cast_weight(at::IntArrayRef sizes, at::ScalarType type) {
  return at::zeros(sizes, memory_type(type));
}

at::Tensor cast_weight(const at::Tensor& values, at::ScalarType type, const std::string& layer) {
  const at::NoGradGuard no_grad;
  if (has_shapes_only()) return empty_cast_weight(values.sizes(), type);
  const at::Tensor cast = values.to(type);
  if (type != kFp8) return cast.is_same(values) ? cast.detach() : cast;
  const at::Tensor is_beyond = cast.to(at::kFloat).isfinite().logical_not();
  if (is_beyond.any().item<bool>()) {
    const at::Tensor beyond = values.to(at::kFloat).masked_select(is_beyond);
    throw Error(ExitCode::kRecipe,
                text("the weight of '{}' has the value {}, and fp8_e4m3 ends at 448", layer,
                     show_number(beyond[0].item<double>())),
                "name the layer in 'skip_modules', or write 'type: bf16'");
  }
  return cast.view(at::kByte);
}

at::Tensor uncast_weight(const at::Tensor& stored, at::ScalarType to) {
  const at::NoGradGuard no_grad;
  return (stored.scalar_type() == at::kByte ? stored.view(kFp8) : stored).to(to);
}

at::Tensor cast_linear(const at::Tensor& x, const at::Tensor& stored, const at::Tensor& bias,
                       std::optional<at::ScalarType> type) {
  at::Tensor y = CastLinear::apply(x.to(type.value_or(product_type(x))), stored);
  if (bias.defined()) y = y.add(bias.to(y.scalar_type()));
  return type ? y.to(x.scalar_type()) : y;
}

}  // namespace accel
