#include "kernels/rms_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Row ranges of a contiguous x, which are the same for any number of threads.
class NormRows {
 public:
  NormRows(const at::Tensor& x, const at::Tensor& weight, double eps)
      : x_(x), weight_(weight), eps_(static_cast<float>(eps)) {}

  int64_t count() const { return x_.numel() / width(); }
  int64_t width() const { return weight_.numel(); }
  int64_t part() const { return rows_of_part(count(), width()); }
  int64_t parts() const { return (count() + part() - 1) / part(); }
  int64_t start(int64_t index) const { return index * part(); }
  RmsNormRows at(int64_t index) const {
    return {x_.const_data_ptr<float>() + start(index) * width(), weight_.const_data_ptr<float>(),
            std::min(part(), count() - start(index)), width(), eps_};
  }

 private:
  const at::Tensor &x_, &weight_;
  float eps_;
};

class RmsNormOnCpu : public torch::autograd::Function<RmsNormOnCpu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const NormRows rows(x, weight, eps);
    at::Tensor y = at::empty_like(x);
    const at::Tensor scales = at::empty({rows.count()}, x.options());
    context->save_for_backward({x, weight, scales});
    context->saved_data["eps"] = eps;
    if (fakes_fused()) return y;
    float *const to = y.mutable_data_ptr<float>(), *const scale = scales.mutable_data_ptr<float>();
    for_each_part(rows.parts(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        rms_norm_cpu(rows.at(i), to + rows.start(i) * rows.width(), scale + rows.start(i));
      }
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const NormRows rows(saved[0], saved[1], context->saved_data["eps"].toDouble());
    const at::Tensor slope = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(slope);
    at::Tensor sums = at::zeros({rows.parts(), rows.width()}, slope.options());
    if (!fakes_fused()) {
      const float *const dy = slope.const_data_ptr<float>(), *const scale =
                                                                 saved[2].const_data_ptr<float>();
      float *const to = dx.mutable_data_ptr<float>(), *const sum = sums.mutable_data_ptr<float>();
      for_each_part(rows.parts(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = rows.start(i) * rows.width();
          rms_norm_backward_cpu(rows.at(i), scale + rows.start(i),
                                {dy + first, to + first, sum + i * rows.width()});
        }
      });
    }
    return {dx, context->needs_input_grad(1) ? sums.sum(0) : at::Tensor(), {}};
  }
};

bool takes_rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  return allocates_as_fused() && x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
         x.is_contiguous() && weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         weight.is_contiguous();
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return takes_rms_norm(x, weight) ? RmsNormOnCpu::apply(x, weight, eps)
                                   : at::rms_norm(x, weight.sizes(), weight, eps);
}

}  // namespace accel
