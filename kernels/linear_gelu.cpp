#include "kernels/linear_gelu.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/bias_gelu_cpu.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

namespace accel {
namespace {

constexpr int64_t kGrain = 32768;  // elements that are worth a thread
constexpr int64_t kMostSums = 16;  // parts, each of which sums the bias's gradient for itself

/// Rows that one part has.
int64_t rows_of_part(int64_t rows, int64_t width) {
  return std::max((kGrain + width - 1) / width, (rows + kMostSums - 1) / kMostSums);
}

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
  if (!takes(x, weight, bias)) return at::gelu(at::linear(x, weight, bias));
  return BiasGelu::apply(at::linear(x, weight).contiguous(), bias);
}

}  // namespace accel
