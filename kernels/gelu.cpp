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

class GeluTanh : public torch::autograd::Function<GeluTanh> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    at::Tensor y = at::empty_like(x);
    const float* in = x.const_data_ptr<float>();
    float* out = y.mutable_data_ptr<float>();
    for_each_part(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      gelu_tanh_cpu(in + begin, out + begin, end - begin);
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    const float* slope = dy.const_data_ptr<float>();
    const float* in = x.const_data_ptr<float>();
    float* out = dx.mutable_data_ptr<float>();
    for_each_part(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      gelu_tanh_backward_cpu(slope + begin, in + begin, out + begin, end - begin);
    });
    return {dx};
  }
};

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  const bool fused = kernels() == Kernels::kFused && x.is_cpu() && x.scalar_type() == at::kFloat &&
                     x.is_contiguous();
  return fused ? GeluTanh::apply(x) : at::gelu(x, "tanh");
}

}  // namespace accel
