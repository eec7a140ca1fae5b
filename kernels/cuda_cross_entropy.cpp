#include "kernels/cuda_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include "kernels/cuda_library.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `sums` [2, rows]: the log of the sum of exponentials and the loss of each row.
CudaCrossEntropy arguments(const at::Tensor& logits, const at::Tensor& targets,
                           const at::Tensor& sums, const at::Tensor& mean) {
  CudaCrossEntropy in = {};
  in.type = cuda_type(logits);
  in.rows = logits.size(0);
  in.classes = in.stride = logits.size(1);
  in.logits = logits.const_data_ptr();
  in.targets = targets.const_data_ptr<int64_t>();
  in.log_sums = sums.mutable_data_ptr<float>();
  in.losses = in.log_sums + in.rows;
  in.mean = mean.mutable_data_ptr<float>();
  return in;
}

class Loss final : public torch::autograd::Function<Loss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, int64_t ignored) {
    const at::TensorOptions wide = logits.options().dtype(at::kFloat);
    const at::Tensor sums = at::empty({2, logits.size(0)}, wide), mean = at::empty({2}, wide);
    // Detached, it refers to the memory only, not to the tensor that `logits` is a view of.
    context->save_for_backward({logits.detach(), targets, sums, mean});
    context->saved_data["ignored"] = ignored;
    CudaCrossEntropy in = arguments(logits, targets, sums, mean);
    in.ignored = ignored;
    run_cuda_kernel(logits.device(), cuda_kernels(logits.device())->cross_entropy, in);
    return mean[0].clone();
  }

  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& logits = saved[0];
    const bool is_free =
        logits.storage().use_count() == 1 && !torch::autograd::get_current_graph_task_keep_graph();
    const at::Tensor gradient = is_free ? logits : at::empty_like(logits);
    const at::Tensor slope = slopes[0].to(at::kFloat).contiguous();
    CudaCrossEntropy in = arguments(logits, saved[1], saved[2], saved[3]);
    in.ignored = context->saved_data["ignored"].toInt();
    in.slope = slope.const_data_ptr<float>();
    in.gradient = gradient.mutable_data_ptr();
    run_cuda_kernel(logits.device(), cuda_kernels(logits.device())->cross_entropy_backward, in);
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

bool takes_on_gpu(const at::Tensor& logits, const at::Tensor& targets) {
  return cuda_kernels(logits.device()) && is_for_cuda_kernels(logits) && logits.dim() == 2 &&
         logits.size(1) > 0 && targets.device() == logits.device() &&
         targets.scalar_type() == at::kLong && targets.is_contiguous() &&
         targets.sizes() == logits.sizes().slice(0, 1);
}

}  // namespace

std::optional<at::Tensor> cuda_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                             int64_t ignored) {
  if (!takes_on_gpu(logits, targets)) return std::nullopt;
  const at::Tensor mean = Loss::apply(logits, targets, ignored);
  const bool is_autocast = at::autocast::is_autocast_enabled(logits.device().type());
  return is_autocast ? mean : mean.to(logits.scalar_type());
}

}  // namespace accel
