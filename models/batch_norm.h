// Batch norm whose statistics can be those of all ranks.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>
#include <utility>

namespace accel {

/// Replaces a tensor, contiguous and on the CPU, by its sum over all ranks. All ranks call it
/// alike, in passes forward and backward.
using SumOverRanks = std::function<void(const at::Tensor& numbers)>;

/// PyTorch's BatchNorm2d. With a sum over ranks it normalises, in training, by the mean and
/// variance of all ranks' samples, as torch.nn.SyncBatchNorm does: each rank's gradients are its
/// part of those of one process with all samples. A rank may have fewer samples than others, but
/// not none.
class RankBatchNorm2dImpl : public torch::nn::BatchNorm2dImpl {
 public:
  using torch::nn::BatchNorm2dImpl::BatchNorm2dImpl;

  at::Tensor forward(const at::Tensor& input);
  void share(SumOverRanks sum) { sum_ = std::move(sum); }

 private:
  /// As forward(), with the running statistics left as they are.
  at::Tensor normalise_again(const at::Tensor& input);

  SumOverRanks sum_;
};
TORCH_MODULE(RankBatchNorm2d);

}  // namespace accel
