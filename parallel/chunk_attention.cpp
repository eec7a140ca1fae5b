#include "parallel/chunk_attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <limits>

namespace accel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// [batch, key heads, ...] to [batch, query heads, ...]
at::Tensor repeated(const at::Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

/// The sum over the queries' heads of each key head.
at::Tensor summed_heads(const at::Tensor& x, int64_t heads) {
  if (x.size(1) == heads) return x;
  return x.view({x.size(0), heads, x.size(1) / heads, x.size(2), x.size(3)}).sum(2);
}

/// ATen's CPU kernels return the log-sum-exp, and take no mask here.
bool has_kernel(const at::Tensor& query, const Visible& visible) {
  return query.device().is_cpu() && !visible.mask.defined();
}

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

double scale_of(const at::Tensor& query) {
  return 1 / std::sqrt(static_cast<double>(query.size(3)));
}

/// [batch, heads, queries, keys], -inf where a key is not visible.
at::Tensor scores_of(const at::Tensor& query, const at::Tensor& key, const Visible& visible) {
  const at::Tensor scores = at::matmul(query, key.transpose(2, 3)).mul(scale_of(query));
  if (visible.mask.defined()) return scores.masked_fill(visible.mask.logical_not(), -kInfinity);
  if (!visible.causal) return scores;
  const at::Tensor seen = at::ones({query.size(2), key.size(2)}, query.options().dtype(at::kBool));
  return scores.masked_fill(seen.tril().logical_not(), -kInfinity);
}

/// exp(scores - logs); 0 for queries without visible keys.
at::Tensor weights_of(const at::Tensor& scores, const at::Tensor& logs) {
  return scores.sub(logs.masked_fill(logs.eq(-kInfinity), 0).unsqueeze(-1)).exp();
}

}  // namespace

PartialAttention attend_chunk(const at::Tensor& query, const KeyChunk& chunk) {
  const Visible& visible = chunk.visible;
  const at::Tensor keys = repeated(chunk.key, query.size(1));
  const at::Tensor values = repeated(chunk.value, query.size(1));
  if (has_kernel(query, visible)) {
    const auto [out, logs] =
        at::_scaled_dot_product_flash_attention_for_cpu(query, keys, values, 0.0, visible.causal);
    return {out, logs};
  }
  const at::ScalarType type = sum_type(query);
  const at::Tensor scores = scores_of(query.to(type), keys.to(type), visible);
  const at::Tensor logs = scores.logsumexp(-1);
  return {at::matmul(weights_of(scores, logs), values.to(type)), logs};
}

AttentionSlopes attend_chunk_backward(const at::Tensor& query, const KeyChunk& chunk,
                                      const PartialAttention& all, const at::Tensor& slope) {
  const Visible& visible = chunk.visible;
  const int64_t heads = query.size(1), shared = chunk.key.size(1);
  const at::Tensor keys = repeated(chunk.key, heads), values = repeated(chunk.value, heads);
  if (has_kernel(query, visible)) {
    const auto [of_query, of_key, of_value] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            slope, query, keys, values, all.out, all.logs, 0.0, visible.causal);
    return {of_query, summed_heads(of_key, shared), summed_heads(of_value, shared)};
  }
  const at::ScalarType type = sum_type(query);
  const at::Tensor q = query.to(type), k = keys.to(type), v = values.to(type), s = slope.to(type);
  const at::Tensor weights = weights_of(scores_of(q, k, visible), all.logs);
  const at::Tensor mean = s.mul(all.out.to(type)).sum(-1, /*keepdim=*/true);
  const at::Tensor of_scores =
      at::matmul(s, v.transpose(2, 3)).sub(mean).mul(weights).mul(scale_of(q));
  return {at::matmul(of_scores, k), summed_heads(at::matmul(of_scores.transpose(2, 3), q), shared),
          summed_heads(at::matmul(weights.transpose(2, 3), s), shared)};
}

void merge(PartialAttention& sum, const PartialAttention& more) {
  const at::Tensor logs = at::logaddexp(sum.logs, more.logs);
  const auto part = [&](const PartialAttention& item) {
    return item.out.mul(weights_of(item.logs.unsqueeze(-1), logs));
  };
  sum.out.copy_(part(sum).add_(part(more)));
  sum.logs.copy_(logs);
}

}  // namespace accel
