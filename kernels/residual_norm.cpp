#include "kernels/residual_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "kernels/choice.h"
#include "kernels/cuda_library.h"
#include "kernels/layer_norm.h"
#include "kernels/product_type.h"
#include "kernels/rms_norm.h"

namespace accel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_like(const at::Tensor& other, const at::Tensor& x, at::ScalarType type) {
  return !other.defined() ||
         (other.device() == x.device() && other.is_contiguous() && other.scalar_type() == type);
}

/// The kernel for CPUs computes LayerNorm in float32; rms_norm() has the one for RMSNorm.
bool has_kernel(const at::Tensor& x, const NormRule& rule) {
  if (cuda_kernels(x.device())) return is_for_cuda_kernels(x);
  return allocates_as_fused() && x.is_cpu() && x.is_contiguous() && !rule.is_rms &&
         x.scalar_type() == at::kFloat && product_type(x) == at::kFloat;
}

bool takes(const at::Tensor& x, const std::optional<at::Tensor>& branch, const NormRule& rule) {
  const at::ScalarType type = x.scalar_type(), product = product_type(x);
  return has_kernel(x, rule) && x.numel() > 0 && (product == type || product == at::kBFloat16) &&
         is_like(rule.weight, x, type) && is_like(rule.bias, x, type) && rule.weight.defined() &&
         rule.weight.numel() == x.size(-1) &&
         (!branch || (is_like(*branch, x, product) && branch->sizes() == x.sizes()));
}

const void* data_of(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}
void* written(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}

/// A new tensor where `like` is defined and its gradient is wanted.
at::Tensor gradient_of(const at::Tensor& like, bool is_wanted) {
  return like.defined() && is_wanted ? at::empty_like(like) : at::Tensor();
}

/// What both passes give to the kernels. `statistics`: [2, rows], mean and 1 / deviation.
CudaNorm arguments(const at::Tensor& x, const NormRule& rule, at::ScalarType product,
                   const at::Tensor& statistics) {
  CudaNorm in = {};
  in.type = cuda_type(x);
  in.y_type = product == at::kFloat ? CudaType::kFloat : CudaType::kBFloat16;
  in.is_rms = rule.is_rms;
  in.width = x.size(-1);
  in.rows = x.numel() / in.width;
  in.eps = static_cast<float>(rule.eps);
  in.x = x.const_data_ptr();
  in.weight = data_of(rule.weight);
  in.bias = data_of(rule.bias);
  in.rstd = statistics[1].mutable_data_ptr<float>();
  in.mean = rule.is_rms ? nullptr : statistics[0].mutable_data_ptr<float>();
  return in;
}

void norm_on_gpu(const at::Tensor& x, const at::Tensor& branch, const NormRule& rule,
                 const NormResults& to) {
  CudaNorm in = arguments(x, rule, to.y.scalar_type(), to.statistics);
  if (branch.defined()) {
    in.branch = branch.const_data_ptr();
    in.sum = to.sum.mutable_data_ptr();
  }
  in.y = to.y.mutable_data_ptr();
  run_cuda_kernel(x.device(), cuda_kernels(x.device())->norm, in);
}

/// As forward() has its tensors.
struct Gradients {
  at::Tensor x, weight, branch, bias;
};

/// Fills in the gradients that are defined: they are uninitialized.
void gradients_on_gpu(const NormResults& saved, const NormRule& rule, const NormSlopes& slopes,
                      const Gradients& to) {
  const at::Tensor& sum = saved.sum;
  CudaNorm in = arguments(sum, rule, slopes.dy.scalar_type(), saved.statistics);
  in.dy = slopes.dy.const_data_ptr();
  in.dsum = data_of(slopes.dsum);
  in.dx = to.x.mutable_data_ptr();
  in.dbranch = written(to.branch);
  in.weight_grad = written(to.weight);
  in.bias_grad = written(to.bias);
  const CudaTable* table = cuda_kernels(sum.device());
  const at::Tensor workspace =
      at::empty({table->norm_workspace(&in)}, sum.options().dtype(at::kFloat));
  if (workspace.numel() > 0) in.workspace = workspace.mutable_data_ptr<float>();
  run_cuda_kernel(sum.device(), table->norm_backward, in);
}

/// Of the tensors x, weight and, where there are, branch and bias.
class Fused final : public torch::autograd::Function<Fused> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList tensors,
                               const NormRule& rule) {
    const at::Tensor& x = tensors[0];
    const bool has_branch = tensors.size() > (rule.bias.defined() ? 3U : 2U);
    const at::ScalarType product = product_type(x);
    const at::Tensor statistics =
        at::empty({2, x.numel() / x.size(-1)}, x.options().dtype(at::kFloat));
    const at::Tensor sum = has_branch ? at::empty_like(x) : x;
    const at::Tensor normed = at::empty_like(x, x.options().dtype(product));
    const at::Tensor branch = has_branch ? tensors[2] : at::Tensor();
    const auto& norm = cuda_kernels(x.device()) ? norm_on_gpu : layer_norm;
    norm(x, branch, rule, {sum, normed, statistics});
    context->set_materialize_grads(false);
    context->save_for_backward({sum, rule.weight, rule.bias, statistics});
    context->saved_data["is_rms"] = rule.is_rms;
    context->saved_data["eps"] = rule.eps;
    context->saved_data["product"] = product;
    context->saved_data["has_branch"] = has_branch;
    return {sum, normed};
  }

  static variable_list backward(AutogradContext* context, const variable_list& slopes) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &sum = saved[0], &statistics = saved[3];
    const bool has_branch = context->saved_data["has_branch"].toBool();
    const at::ScalarType product = context->saved_data["product"].toScalarType();
    if (!slopes[1].defined()) {
      const at::Tensor of_branch =
          has_branch && slopes[0].defined() ? slopes[0].to(product) : at::Tensor();
      return gradients(context, {slopes[0], {}, of_branch, {}});
    }
    const NormRule rule = {context->saved_data["is_rms"].toBool(), saved[1], saved[2],
                           context->saved_data["eps"].toDouble()};
    const at::Tensor dy = slopes[1].contiguous();
    const at::Tensor dsum = slopes[0].defined() ? slopes[0].contiguous() : at::Tensor();
    const NormResults results = {sum, sum, statistics};
    if (!cuda_kernels(sum.device())) {
      const NormGradients of = layer_norm_backward(results, rule, {dy, dsum});
      return gradients(context, {of.sum, of.weight, of.sum, of.bias});
    }
    Gradients to;
    to.x = at::empty_like(sum);
    if (has_branch) to.branch = at::empty_like(sum, sum.options().dtype(product));
    to.weight = gradient_of(rule.weight, context->needs_input_grad(1));
    to.bias = gradient_of(rule.bias,
                          rule.bias.defined() && context->needs_input_grad(has_branch ? 3 : 2));
    gradients_on_gpu(results, rule, {dy, dsum}, to);
    return gradients(context, to);
  }

 private:
  /// As forward() has its arguments: without those of tensors that it did not get.
  static variable_list gradients(AutogradContext* context, const Gradients& all) {
    variable_list given = {all.x, all.weight};
    if (context->saved_data["has_branch"].toBool()) given.push_back(all.branch);
    if (context->get_saved_variables()[2].defined()) given.push_back(all.bias);
    given.emplace_back();
    return given;
  }
};

}  // namespace

ResidualNorm residual_norm(const at::Tensor& x, const std::optional<at::Tensor>& branch,
                           const NormRule& rule) {
  if (takes(x, branch, rule)) {
    std::vector<at::Tensor> tensors = {x, rule.weight};
    if (branch) tensors.push_back(*branch);
    if (rule.bias.defined()) tensors.push_back(rule.bias);
    const variable_list out = Fused::apply(at::TensorList(tensors), rule);
    return {out[0], out[1]};
  }
  const at::Tensor sum = branch ? x.add(*branch) : x;
  if (rule.is_rms) return {sum, rms_norm(sum, rule.weight, rule.eps)};
  return {sum, at::layer_norm(sum, rule.weight.sizes(), rule.weight, rule.bias, rule.eps)};
}

}  // namespace accel
