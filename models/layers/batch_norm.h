// Batch norm with statistics over all ranks.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>
#include <utility>

namespace accel {

/// All-reduces a contiguous CPU tensor in place. Called by all ranks in the same order, in forward
/// and backward passes.
using SumOverRanks = std::function<void(const at::Tensor& numbers)>;

/// PyTorch's BatchNorm2d. With a sum over ranks, training normalizes by mean and variance of all
/// ranks' samples, as torch.nn.SyncBatchNorm: the sum of the ranks' gradients equals the gradient
/// of one process with all samples. Ranks may have different numbers of samples, but at least one.
class RankBatchNorm2dImpl : public torch::nn::BatchNorm2dImpl {
 public:
  using torch::nn::BatchNorm2dImpl::BatchNorm2dImpl;

  at::Tensor forward(const at::Tensor& input);
  void share(SumOverRanks sum) { sum_ = std::move(sum); }

 private:
  /// As forward(), without an update of the running statistics.
  at::Tensor normalise_again(const at::Tensor& input);

  SumOverRanks sum_;
};
TORCH_MODULE(RankBatchNorm2d);

}  // namespace accel
