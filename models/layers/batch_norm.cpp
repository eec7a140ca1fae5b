#include "models/layers/batch_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/api/model.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/share_batch_norm.h"
#include "models/program/tensor_tree.h"

namespace accel {
namespace {

/// [channels] broadcastable to a batch.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& batch) {
  std::vector<int64_t> shape(static_cast<size_t>(batch.dim()), 1);
  shape[1] = values.size(0);
  return values.view(shape);
}

/// Sums over all dimensions except channels.
at::Tensor sum_by_channel(const at::Tensor& batch) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < batch.dim(); ++dim) dims.push_back(dim);
  return batch.sum(dims).to(at::kDouble);
}

/// Per channel, over the samples of all ranks.
struct NormStatistics {
  at::Tensor mean, variance;  ///< biased variance
  double count = 0;           ///< values per channel
};

/// Two passes, for numerical accuracy.
NormStatistics statistics_of(const at::Tensor& batch, const SumOverRanks& sum) {
  const int64_t channels = batch.size(1);
  const at::Tensor sums = at::empty({channels + 1}, batch.options().dtype(at::kDouble));
  sums.narrow(0, 0, channels).copy_(sum_by_channel(batch));
  sums.narrow(0, channels, 1).fill_(static_cast<double>(batch.numel() / channels));
  sum(sums);
  NormStatistics found;
  found.count = sums.narrow(0, channels, 1).item().toDouble();
  found.mean = sums.narrow(0, 0, channels).div(found.count);
  const at::Tensor apart = batch.sub(by_channel(found.mean.to(batch.scalar_type()), batch));
  const at::Tensor squares = sum_by_channel(apart.square());
  sum(squares);
  found.variance = squares.div(found.count);
  return found;
}

/// Properties independent of the samples.
struct NormCall {
  const NormStatistics* statistics;  ///< outlives the forward pass
  double eps;
  const SumOverRanks* sum;  ///< outlives the backward pass
};

class RankNorm final : public torch::autograd::Function<RankNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias, NormCall call) {
    const at::Tensor batch = input.to(at::kFloat);
    const at::Tensor mean = call.statistics->mean.to(at::kFloat);
    const at::Tensor inverse = call.statistics->variance.add(call.eps).rsqrt().to(at::kFloat);
    const at::Tensor normal = batch.sub(by_channel(mean, batch)).mul_(by_channel(inverse, batch));
    context->save_for_backward({normal, weight, inverse});
    context->saved_data["count"] = call.statistics->count;
    context->saved_data["type"] = static_cast<int64_t>(input.scalar_type());
    context->saved_data["sum"] = reinterpret_cast<int64_t>(call.sum);
    at::Tensor out = normal;
    if (weight.defined()) out = out.mul(by_channel(weight, batch));
    if (bias.defined()) out = out.add(by_channel(bias, batch));
    return out.is_same(normal) ? out.clone().to(input.scalar_type()) : out.to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &normal = saved[0], &weight = saved[1], &inverse = saved[2];
    const double count = context->saved_data["count"].toDouble();
    const auto& sum = *reinterpret_cast<const SumOverRanks*>(context->saved_data["sum"].toInt());
    const at::Tensor from = gradients[0].to(at::kFloat);
    // Gradients of weight and bias are local; those of the input use sums over ranks.
    const at::Tensor sums = at::stack({sum_by_channel(from), sum_by_channel(from.mul(normal))});
    const at::Tensor own = sums.to(at::kFloat);
    sum(sums);
    const at::Tensor means = sums.div(count).to(at::kFloat);
    at::Tensor to = from.sub(by_channel(means[0], from))
                        .sub_(normal.mul(by_channel(means[1], from)))
                        .mul_(by_channel(weight.defined() ? inverse.mul(weight) : inverse, from));
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {to.to(type), weight.defined() ? own[1] : at::Tensor(),
            weight.defined() ? own[0] : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor RankBatchNorm2dImpl::forward(const at::Tensor& input) {
  if (!is_training()) return torch::nn::BatchNorm2dImpl::forward(input);
  if (!sum_) {
    return is_recomputing() ? normalise_again(input) : torch::nn::BatchNorm2dImpl::forward(input);
  }
  _check_input_dim(input);
  NormStatistics statistics;
  {
    const torch::NoGradGuard no_grad;
    statistics = statistics_of(input.detach().to(at::kFloat), sum_);
    if (options.track_running_stats() && !is_recomputing()) {
      num_batches_tracked.add_(1);
      const double momentum =
          options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item().toDouble();
      const double unbiased = statistics.count / std::max(1.0, statistics.count - 1);
      running_mean.lerp_(statistics.mean.to(running_mean.scalar_type()), momentum);
      running_var.lerp_(statistics.variance.mul(unbiased).to(running_var.scalar_type()), momentum);
    }
  }
  return RankNorm::apply(input, weight, bias, NormCall{&statistics, options.eps(), &sum_});
}

at::Tensor RankBatchNorm2dImpl::normalise_again(const at::Tensor& input) {
  const auto copy = [](const at::Tensor& of) { return of.defined() ? of.clone() : of; };
  return torch::nn::functional::detail::batch_norm(input, copy(running_mean), copy(running_var),
                                                   weight, bias, /*training=*/true,
                                                   /*momentum=*/0.0, options.eps());
}

int64_t share_batch_norm(Model& model, const std::function<void(const at::Tensor&)>& sum) {
  int64_t found = 0;
  for (const auto& item : model.module().named_modules()) {
    torch::nn::Module& module = *item.value();
    if (auto* norm = dynamic_cast<RankBatchNorm2dImpl*>(&module)) {
      norm->share(sum);
      ++found;
    } else if (module.as<torch::nn::BatchNorm1d>() || module.as<torch::nn::BatchNorm2d>() ||
               module.as<torch::nn::BatchNorm3d>()) {
      throw Error(
          ExitCode::kRecipe,
          text("'{}' is a PyTorch batch norm, which does not support several ranks", item.key()),
          "leave 'sync_batch_norm' out, or build the model with RankBatchNorm2d");
    } else if (dynamic_cast<TensorTree*>(&module) &&
               module.named_buffers(false).contains("running_mean")) {
      throw Error(
          ExitCode::kRecipe,
          text("'{}' is a Python batch norm, which does not support several ranks", item.key()),
          "leave 'sync_batch_norm' out");
    }
  }
  return found;
}

}  // namespace accel
