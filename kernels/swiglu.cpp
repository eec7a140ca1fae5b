#include "kernels/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cuda_activation.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kSwigluGrain = 32768;  // minimum elements per thread

/// Calls work(begin, end, number) on ranges, where `number` is a float or the bits of a bfloat16.
template <typename Work>
void for_each_range(const at::Tensor& like, const Work& work) {
  if (fakes_fused()) return;
  const auto as = [&](auto number) {
    for_each_part(like.numel(), kSwigluGrain,
                  [&](int64_t begin, int64_t end) { work(begin, end, number); });
  };
  like.scalar_type() == at::kFloat ? as(float()) : as(uint16_t());
}

template <typename Number>
const Number* read_at(const at::Tensor& x, int64_t index) {
  return static_cast<const Number*>(x.const_data_ptr()) + index;
}
template <typename Number>
Number* written_at(const at::Tensor& x, int64_t index) {
  return static_cast<Number*>(x.mutable_data_ptr()) + index;
}

class SwigluOnCpu : public torch::autograd::Function<SwigluOnCpu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    at::Tensor y = at::empty_like(gate);
    for_each_range(y, [&](int64_t begin, int64_t end, auto number) {
      using Number = decltype(number);
      swiglu_cpu(read_at<Number>(gate, begin), read_at<Number>(up, begin),
                 written_at<Number>(y, begin), end - begin);
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dgate = at::empty_like(dy), dup = at::empty_like(dy);
    for_each_range(dy, [&](int64_t begin, int64_t end, auto number) {
      using Number = decltype(number);
      swiglu_backward_cpu(
          SwigluSlopes<Number>{read_at<Number>(dy, begin), read_at<Number>(saved[0], begin),
                               read_at<Number>(saved[1], begin), written_at<Number>(dgate, begin),
                               written_at<Number>(dup, begin)},
          end - begin);
    });
    return {dgate, dup};
  }
};

bool takes_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType type = gate.scalar_type();
  return allocates_as_fused() && gate.is_cpu() && up.is_cpu() && gate.sizes() == up.sizes() &&
         (type == at::kFloat || type == at::kBFloat16) && up.scalar_type() == type &&
         gate.is_contiguous() && up.is_contiguous();
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (takes_swiglu(gate, up)) return SwigluOnCpu::apply(gate, up);
  const auto on_gpu = cuda_activation(CudaActivation::kSwiGlu, gate, up);
  return on_gpu ? *on_gpu : at::silu(gate).mul(up);
}

}  // namespace accel
