#include "kernels/gelu.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cuda_activation.h"

namespace accel {
namespace {

constexpr int64_t kGeluGrain = 32768;  // minimum elements per thread

/// Runs loop(inputs..., output, count) on ranges of contiguous tensors of one type, float32 or the
/// bits of bfloat16.
template <typename Loop, typename... Tensors>
void run(const Loop& loop, const at::Tensor& to, const Tensors&... from) {
  const auto as = [&](auto kind) {
    using Number = decltype(kind);
    auto* const out = static_cast<Number*>(to.mutable_data_ptr());
    for_each_part(to.numel(), kGeluGrain, [&](int64_t begin, int64_t end) {
      loop(static_cast<const Number*>(from.const_data_ptr()) + begin..., out + begin, end - begin);
    });
  };
  if (to.scalar_type() == at::kFloat) {
    as(float());
  } else {
    as(uint16_t());
  }
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

bool takes_gelu(const at::Tensor& x) {
  return kernels() == Kernels::kFused && x.is_cpu() && x.is_contiguous() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  if (takes_gelu(x)) return GeluTanh::apply(x);
  const auto on_gpu = cuda_activation(CudaActivation::kGeluTanh, x);
  return on_gpu ? *on_gpu : at::gelu(x, "tanh");
}

namespace {

/// gelu(x + bias) for contiguous x [..., width] and bias [width].
class BiasGelu : public torch::autograd::Function<BiasGelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& bias) {
    context->save_for_backward({x, bias});
    at::Tensor y = at::empty_like(x);
    const int64_t width = bias.numel(), rows = x.numel() / width;
    const float *from = x.const_data_ptr<float>(), *add = bias.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    for_each_part(rows, rows_of_part(rows, width), [&](int64_t begin, int64_t end) {
      bias_gelu_cpu(from + begin * width, add, to + begin * width, end - begin, width);
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &bias = saved[1];
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(x);
    const int64_t width = bias.numel(), rows = x.numel() / width;
    const int64_t part = rows_of_part(rows, width), parts = (rows + part - 1) / part;
    at::Tensor sums = at::zeros({parts, width}, bias.options());
    const float *slope = dy.const_data_ptr<float>(), *from = x.const_data_ptr<float>();
    const float* const add = bias.const_data_ptr<float>();
    float *const to = dx.mutable_data_ptr<float>(), *const sum = sums.mutable_data_ptr<float>();
    for_each_part(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * part * width;
        bias_gelu_backward_cpu({slope + at, from + at, add, to + at, sum + i * width},
                               std::min(part, rows - i * part), width);
      }
    });
    return {dx, sums.sum(0)};
  }
};

bool is_float_here(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.scalar_type() == at::kFloat;
}

bool takes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return kernels() == Kernels::kFused && is_float_here(x) && is_float_here(weight) &&
         is_float_here(bias) && bias.is_contiguous() && x.numel() > 0 && weight.numel() > 0 &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace

at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!takes(x, weight, bias)) {
    const at::Tensor z = at::linear(x, weight, bias);
    const auto on_gpu = cuda_activation(CudaActivation::kGeluErf, z);
    return on_gpu ? *on_gpu : at::gelu(z);
  }
  return BiasGelu::apply(at::linear(x, weight).contiguous(), bias);
}

}  // namespace accel
