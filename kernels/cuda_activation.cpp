#include "kernels/cuda_activation.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cuda_library.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

CudaElementwise arguments(int64_t activation, const at::Tensor& x, const at::Tensor& up) {
  CudaElementwise in = {};
  in.type = cuda_type(x);
  in.activation = static_cast<CudaActivation>(activation);
  in.count = x.numel();
  in.x = x.const_data_ptr();
  if (up.defined()) in.up = up.const_data_ptr();
  return in;
}

class Activation final : public torch::autograd::Function<Activation> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& optional_up, int64_t activation) {
    const at::Tensor up = optional_up.value_or(at::Tensor());
    context->save_for_backward({x, up});
    context->saved_data["activation"] = activation;
    const at::Tensor y = at::empty_like(x);
    CudaElementwise in = arguments(activation, x, up);
    in.y = y.mutable_data_ptr();
    run_cuda_kernel(x.device(), cuda_kernels(x.device())->elementwise, in);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &up = saved[1];
    const at::Tensor dy = gradients[0].contiguous(), dx = at::empty_like(x);
    const at::Tensor dup = up.defined() ? at::empty_like(up) : at::Tensor();
    CudaElementwise in = arguments(context->saved_data["activation"].toInt(), x, up);
    in.dy = dy.const_data_ptr();
    in.dx = dx.mutable_data_ptr();
    if (dup.defined()) in.dup = dup.mutable_data_ptr();
    run_cuda_kernel(x.device(), cuda_kernels(x.device())->elementwise_backward, in);
    return {dx, dup, at::Tensor()};
  }
};

bool fits(const at::Tensor& up, const at::Tensor& x) {
  return !up.defined() || (up.is_contiguous() && up.device() == x.device() &&
                           up.scalar_type() == x.scalar_type() && up.sizes() == x.sizes());
}

}  // namespace

std::optional<at::Tensor> cuda_activation(CudaActivation activation, const at::Tensor& x,
                                          const at::Tensor& up) {
  if (!cuda_kernels(x.device()) || !is_for_cuda_kernels(x) || !fits(up, x)) return std::nullopt;
  const auto optional_up = up.defined() ? std::optional(up) : std::nullopt;
  return Activation::apply(x, optional_up, static_cast<int64_t>(activation));
}

}  // namespace accel
