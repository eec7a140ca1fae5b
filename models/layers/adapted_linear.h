// Linear layer with an optional low-rank adapter.
#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <utility>

#include "core/api/tensor_parallel.h"
#include "models/lora/lora_options.h"

namespace accel {

/// A projects to the rank; B, initially zero, projects back.
struct AdapterPair {
  torch::nn::Linear a, b;
};

/// Initializes A with the same random numbers as PEFT; of LoraInit::kPissa and kOlora A and B are
/// not initialized. `lora` has the rank of the layer.
AdapterPair make_adapter(int64_t inputs, int64_t outputs, const LoraOptions& lora);

/// torch::nn::Linear plus scale * B(A(dropout(x))) of its adapter, with DoRA's magnitude if it has
/// one. All have PEFT's parameter names.
class AdaptedLinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  at::Tensor forward(const at::Tensor& x);
  /// Divides the layer by input features (TensorStyle::kRowwise): forward() takes this rank's
  /// features and sums over the ranks, or with `sums` false leaves the sum to the caller, for a
  /// layer without a bias. Null changes nothing.
  void divide_inputs(std::shared_ptr<const TensorRanks> ranks, bool sums = true) {
    ranks_ = std::move(ranks);
    sums_ = sums;
  }
  /// forward() computes in float32, and autocast does not change it: for routers.
  void compute_in_fp32() { in_fp32_ = true; }
  bool is_in_fp32() const { return in_fp32_; }
  /// At most once, after the weight is loaded: its principal part may go into the adapter. Throws
  /// Error (kRecipe) for options that a divided layer does not support.
  void adapt(const LoraOptions& lora);
  /// Sets DoRA's magnitude to the norm of the weight's rows; nothing without DoRA.
  void set_magnitude();
  bool is_adapted() const { return !lora_a_.is_empty(); }

 private:
  torch::nn::Linear lora_a_{nullptr}, lora_b_{nullptr};
  at::Tensor magnitude_;  ///< [out_features]; undefined without DoRA
  double dropout_ = 0;
  double scale_ = 0;
  std::shared_ptr<const TensorRanks> ranks_;
  bool sums_ = true;
  bool in_fp32_ = false;

  at::Tensor compute(const at::Tensor& x);
  at::Tensor directed(const at::Tensor& x, const at::Tensor& y);
  at::Tensor adapted_weight() const;
  void take_part(LoraInit init);
};
TORCH_MODULE(AdaptedLinear);

}  // namespace accel
