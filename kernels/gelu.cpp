#include "kernels/gelu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/gelu_cpu.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

namespace accel {
namespace {

constexpr int64_t kGrain = 32768;  // elements that are worth a thread

/// loop(inputs..., output, count) for parts of contiguous tensors of one type, float32 or bfloat16
/// as its bits.
template <typename Loop, typename... Tensors>
void run(const Loop& loop, const at::Tensor& to, const Tensors&... from) {
  const auto as = [&](auto kind) {
    using Number = decltype(kind);
    auto* const out = static_cast<Number*>(to.mutable_data_ptr());
    for_each_part(to.numel(), kGrain, [&](int64_t begin, int64_t end) {
      loop(static_cast<const Number*>(from.const_data_ptr()) + begin..., out + begin, end - begin);
    });
  };
  to.scalar_type() == at::kFloat ? as(float()) : as(uint16_t());
}

class GeluTanh : public torch::autograd::Function<GeluTanh> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    at::Tensor y = at::empty_like(x);
    run([](auto... part) { gelu_tanh_cpu(part...); }, y, x);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    run([](auto... part) { gelu_tanh_backward_cpu(part...); }, dx, dy, x);
    return {dx};
  }
};

bool takes(const at::Tensor& x) {
  return kernels() == Kernels::kFused && x.is_cpu() && x.is_contiguous() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  return takes(x) ? GeluTanh::apply(x) : at::gelu(x, "tanh");
}

}  // namespace accel
