#include "kernels/cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cuda_cross_entropy.h"

namespace accel {
namespace {

using torch::autograd::variable_list;

/// Rows of logits and their targets.
struct LabelledRows {
  const float* logits;
  const int64_t* targets;
  int64_t rows, classes, ignored;

  LabelledRows(const at::Tensor& x, const at::Tensor& wanted, int64_t ignored_target)
      : logits(x.const_data_ptr<float>()),
        targets(wanted.const_data_ptr<int64_t>()),
        rows(x.size(0)),
        classes(x.size(1)),
        ignored(ignored_target) {}

  bool counts(int64_t row) const { return targets[row] != ignored; }
  const float* row_at(int64_t row) const { return logits + row * classes; }
  int64_t counted() const { return rows - std::count(targets, targets + rows, ignored); }
  void check_targets() const {
    for (int64_t row = 0; row < rows; ++row) {
      TORCH_CHECK_INDEX(!counts(row) || (targets[row] >= 0 && targets[row] < classes), "Target ",
                        targets[row], " is out of bounds.");
    }
  }
};

float mean_of_rows(const LabelledRows& in, float* log_sums) {
  for_each_part(in.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (in.counts(row)) log_sum_exp_cpu(in.row_at(row), in.classes, log_sums + row);
    }
  });
  double total = 0;
  for (int64_t row = 0; row < in.rows; ++row) {
    if (in.counts(row)) total += log_sums[row] - in.row_at(row)[in.targets[row]];
  }
  return static_cast<float>(total / static_cast<double>(in.counted()));
}

/// `slope`: the gradient of the mean.
void gradient_of_mean(const LabelledRows& in, const float* log_sums, float slope, float* gradient) {
  const float scale = slope / static_cast<float>(in.counted());
  for_each_part(in.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = gradient + row * in.classes;
      if (!in.counts(row)) {
        std::fill(out, out + in.classes, 0.0F);
        continue;
      }
      scaled_softmax_cpu(in.row_at(row), log_sums[row], scale, out, in.classes);
      out[in.targets[row]] -= scale;
    }
  });
}

class CrossEntropy final : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, int64_t ignored) {
    const at::Tensor log_sums = at::empty({logits.size(0)}, logits.options());
    at::Tensor mean = at::empty({}, logits.options());
    context->save_for_backward({logits, targets, log_sums});
    context->saved_data["ignored"] = ignored;
    if (fakes_fused()) return mean;
    const LabelledRows in(logits, targets, ignored);
    in.check_targets();
    mean.fill_(mean_of_rows(in, log_sums.mutable_data_ptr<float>()));
    return mean;
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& slopes) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = at::empty_like(saved[0]);
    if (!fakes_fused()) {
      gradient_of_mean({saved[0], saved[1], context->saved_data["ignored"].toInt()},
                       saved[2].const_data_ptr<float>(), slopes[0].item<float>(),
                       gradient.mutable_data_ptr<float>());
    }
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

bool takes(const at::Tensor& logits, const at::Tensor& targets) {
  return allocates_as_fused() && logits.is_cpu() && logits.scalar_type() == at::kFloat &&
         logits.dim() == 2 && logits.is_contiguous() && logits.size(1) > 0 && targets.is_cpu() &&
         targets.scalar_type() == at::kLong && targets.sizes() == logits.sizes().slice(0, 1) &&
         targets.is_contiguous();
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored) {
  if (takes(logits, targets)) return CrossEntropy::apply(logits, targets, ignored);
  if (const auto on_gpu = cuda_cross_entropy(logits, targets, ignored)) return *on_gpu;
  return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, ignored);
}

}  // namespace accel
