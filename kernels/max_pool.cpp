#include "kernels/max_pool.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/upcast.h"

namespace accel {
namespace {

PoolPlane plane_of(const at::Tensor& x, PoolSizes sizes) {
  PoolPlane plane = {{x.size(2), x.size(3)}, {}, sizes.window, sizes.stride, sizes.padding};
  for (int i = 0; i < 2; ++i) {
    plane.out[i] = (plane.in[i] + 2 * sizes.padding - sizes.window) / sizes.stride + 1;
  }
  return plane;
}

class MaxPool2d : public torch::autograd::Function<MaxPool2d> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const PoolPlane& plane) {
    const int64_t inner = plane.in[0] * plane.in[1], outer = plane.out[0] * plane.out[1];
    at::Tensor y = at::empty({x.size(0), x.size(1), plane.out[0], plane.out[1]}, x.options());
    const at::Tensor places = at::empty(y.sizes(), x.options().dtype(at::kInt));
    context->save_for_backward({places});
    context->saved_data["shape"] = x.sizes().vec();
    if (fakes_fused()) return y;
    const float* in = x.const_data_ptr<float>();
    float* out = y.mutable_data_ptr<float>();
    int32_t* to = places.mutable_data_ptr<int32_t>();
    for_each_part(x.size(0) * x.size(1), 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        max_pool_cpu(in + i * inner, plane, out + i * outer, to + i * outer);
      }
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor places = context->get_saved_variables()[0];
    const std::vector<int64_t> shape = context->saved_data["shape"].toIntVector();
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dx = at::zeros(shape, dy.options());
    if (fakes_fused()) return {dx, {}};
    const int64_t inner = shape[2] * shape[3], outer = dy.size(2) * dy.size(3);
    const float* slopes = dy.const_data_ptr<float>();
    const int32_t* from = places.const_data_ptr<int32_t>();
    float* out = dx.mutable_data_ptr<float>();
    for_each_part(shape[0] * shape[1], 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = i * outer; j < (i + 1) * outer; ++j) out[i * inner + from[j]] += slopes[j];
      }
    });
    return {dx, {}};
  }
};

bool takes(const at::Tensor& x, PoolSizes sizes) {
  return allocates_as_fused() && x.is_cpu() && x.dim() == 4 &&
         (x.scalar_type() == at::kFloat || has_16_bits(x.scalar_type())) && x.is_contiguous() &&
         x.numel() > 0 && sizes.stride >= 1 && sizes.stride <= 3 &&
         2 * sizes.padding <= sizes.window && x.size(2) + 2 * sizes.padding >= sizes.window &&
         x.size(3) + 2 * sizes.padding >= sizes.window &&
         x.size(2) * x.size(3) <= std::numeric_limits<int32_t>::max();
}

}  // namespace

at::Tensor max_pool(const at::Tensor& x, PoolSizes sizes) {
  if (takes(x, sizes)) {
    return downcast(MaxPool2d::apply(upcast(x), plane_of(x, sizes)), x.scalar_type());
  }
  return at::max_pool2d(x, {sizes.window, sizes.window}, {sizes.stride, sizes.stride},
                        {sizes.padding, sizes.padding});
}

}  // namespace accel
