// Linear layer with an optional low-rank adapter.
#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/api/tensor_parallel.h"
#include "kernels/fp8/fp8_linear.h"
#include "models/lora/lora_options.h"
#include "models/quantized/frozen_weight.h"

namespace accel {

/// A projects to the rank; B, initially zero, projects back.
struct AdapterPair {
  torch::nn::Linear a, b;
};

/// Initializes A with the same random numbers as PEFT; of LoraInit::kPissa and kOlora A and B are
/// not initialized. `lora` has the rank of the layer.
AdapterPair make_adapter(int64_t inputs, int64_t outputs, const LoraOptions& lora);

/// A layer that supports an adapter.
class Adaptable {
 public:
  virtual ~Adaptable() = default;
  /// At most once, after the weight is loaded: its principal part may go into the adapter. Throws
  /// Error (kRecipe) for options that the layer does not support.
  virtual void adapt(const LoraOptions& lora) = 0;
  virtual bool is_adapted() const = 0;
};

/// The adapter of a head whose output is computed by others from its inputs and its weight: both
/// get further columns, by which the product of the two has the adapter's output. Without an
/// adapter, and while AdaptersOff lives, both are unchanged.
class HeadAdapter {
 public:
  HeadAdapter() = default;
  HeadAdapter(AdapterPair pair, double scale, double dropout)
      : pair_(std::move(pair)), scale_(scale), dropout_(dropout) {}

  /// Whether it changes inputs and weight.
  bool is_on() const;
  /// [..., inputs] to [..., inputs + rank]. `dropout` is that of training.
  at::Tensor widened_inputs(const at::Tensor& x) const;
  /// [outputs, inputs] to [outputs, inputs + rank], a copy.
  at::Tensor widened_weight(const at::Tensor& weight) const;

 private:
  AdapterPair pair_{nullptr, nullptr};
  double scale_ = 0;
  double dropout_ = 0;
};

/// torch::nn::Linear plus scale * B(A(dropout(x))) of its adapter, with DoRA's magnitude if it has
/// one. All have PEFT's parameter names.
class AdaptedLinearImpl : public torch::nn::LinearImpl, public Adaptable {
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
  bool is_divided() const { return ranks_ != nullptr; }
  /// forward() computes in float32, and autocast does not change it: for routers.
  void compute_in_fp32() { in_fp32_ = true; }
  bool is_in_fp32() const { return in_fp32_; }
  /// forward() computes the products of the weight in fp8, those of an adapter as before.
  void compute_in_fp8(std::shared_ptr<const Fp8Layer> layer) { fp8_ = std::move(layer); }
  bool is_in_fp8() const { return fp8_ != nullptr; }
  /// Null: not in fp8.
  const Fp8Layer* fp8() const { return fp8_.get(); }
  void adapt(const LoraOptions& lora) override;
  /// Replaces the weight by one of its sizes: `weight` has what that stores.
  void hold(FrozenWeight frozen);
  /// Whether the weight is quantized or cast.
  bool is_quantized() const { return frozen_.has_value(); }
  /// Null: the weight is not quantized.
  const FrozenWeight* frozen() const { return frozen_ ? &*frozen_ : nullptr; }
  /// [out_features, in_features], as float32 if it is quantized or cast.
  at::Tensor base_weight() const { return frozen_ ? frozen_->values() : weight; }
  /// Sets DoRA's magnitude to the norm of the weight's rows; nothing without DoRA.
  void set_magnitude();
  bool is_adapted() const override { return !lora_a_.is_empty(); }
  /// Whether forward() is at::linear(), so that others may compute with weight and bias instead.
  bool is_plain() const { return !is_adapted() && !is_quantized() && !is_in_fp8(); }
  /// Whether forward() has DoRA's norms, for which it reads the weight outside of the product.
  bool has_magnitude() const { return magnitude_.defined(); }
  /// For layers without a bias and DoRA.
  HeadAdapter head_adapter() const;

 private:
  torch::nn::Linear lora_a_{nullptr}, lora_b_{nullptr};
  at::Tensor magnitude_;  ///< [out_features]; undefined without DoRA
  double dropout_ = 0;
  double scale_ = 0;
  std::shared_ptr<const TensorRanks> ranks_;
  bool sums_ = true;
  bool in_fp32_ = false;
  std::optional<FrozenWeight> frozen_;   ///< shares the tensors of the parameters
  std::shared_ptr<const Fp8Layer> fp8_;  ///< null: forward() computes in autocast's type

  at::Tensor compute(const at::Tensor& x);
  at::Tensor base_product(const at::Tensor& x);
  at::Tensor weight_product(const at::Tensor& x);
  at::Tensor directed(const at::Tensor& x, const at::Tensor& y);
  at::Tensor adapted_weight() const;
  void take_part(LoraInit init);
};
TORCH_MODULE(AdaptedLinear);

}  // namespace accel
