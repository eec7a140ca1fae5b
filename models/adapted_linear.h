// A linear layer that can be given a low-rank adapter.
#pragma once

#include <torch/nn/modules/linear.h>

#include "models/lora_options.h"

namespace accel {

/// A maps to the rank and B, which starts as zero, back.
struct AdapterPair {
  torch::nn::Linear a, b;
};

/// Draws the same numbers for A as PEFT does.
AdapterPair make_adapter(int64_t inputs, int64_t outputs, int64_t rank);

/// torch::nn::Linear, and with an adapter what that adds: scale * B(A(dropout(x))). Both are
/// registered as PEFT names them.
class AdaptedLinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  at::Tensor forward(const at::Tensor& x);
  /// At most once.
  void adapt(const LoraOptions& lora);
  bool is_adapted() const { return !lora_a_.is_empty(); }

 private:
  torch::nn::Linear lora_a_{nullptr}, lora_b_{nullptr};
  double dropout_ = 0;
  double scale_ = 0;
};
TORCH_MODULE(AdaptedLinear);

}  // namespace accel
