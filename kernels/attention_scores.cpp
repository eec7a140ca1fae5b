#include "kernels/attention_scores.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

namespace accel {
namespace {

/// Heads of keys or values, one for each head of the queries.
at::Tensor repeated(const at::Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

/// With scores in memory, for what ATen's operator cannot do.
at::Tensor written_attention(const AttentionInputs& inputs, const AttentionScores& scores) {
  const int64_t heads = inputs.query.size(1), tokens = inputs.query.size(2);
  const double usual = 1 / std::sqrt(static_cast<double>(inputs.query.size(3)));
  const at::Tensor key = repeated(inputs.key, heads).transpose(2, 3);
  at::Tensor x = inputs.query.matmul(key);
  if (const double scale = scores.scale.value_or(usual); scale != 1) x = x.mul(scale);
  if (scores.softcap > 0) x = x.div(scores.softcap).tanh().mul(scores.softcap);
  if (scores.bias.defined()) x = x.add(scores.bias);
  const at::Tensor mask =
      inputs.mask.defined() || !inputs.is_causal ? inputs.mask : window_mask(tokens, 0, x.device());
  if (mask.defined()) {
    x = x.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights = x.softmax(-1, at::kFloat).to(inputs.value.scalar_type());
  return at::dropout(weights, scores.dropout, scores.dropout > 0)
      .matmul(repeated(inputs.value, heads));
}

}  // namespace

at::Tensor scored_attention(const AttentionInputs& inputs, const AttentionScores& scores) {
  if (scores.softcap > 0 || scores.bias.defined()) return written_attention(inputs, scores);
  const auto mask = inputs.mask.defined() ? std::optional(inputs.mask) : std::nullopt;
  return at::scaled_dot_product_attention(
      inputs.query, inputs.key, inputs.value, mask, scores.dropout, inputs.is_causal, scores.scale,
      /*enable_gqa=*/inputs.query.size(1) != inputs.key.size(1));
}

at::Tensor window_mask(int64_t length, int64_t window, at::Device device) {
  const auto flags = at::TensorOptions().dtype(at::kBool).device(device);
  const at::Tensor causal = at::ones({length, length}, flags).tril();
  return window > 0 ? causal.triu(1 - window) : causal;
}

}  // namespace accel
