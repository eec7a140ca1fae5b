#include "models/layers/context_parallel.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>

#include "core/base/error.h"
#include "models/layers/self_attention.h"

namespace accel {
namespace {

/// Padding belongs to no text.
constexpr int64_t kNoText = -1;

at::Tensor padded(const ContextRanks& ranks, const at::Tensor& x, int64_t dim, int64_t value) {
  const int64_t more = ranks.padded_length(x.size(dim)) - x.size(dim);
  std::vector<int64_t> widths(static_cast<size_t>(2 * (x.dim() - dim)));
  widths.back() = more;  // those of the last dimension are first
  return more > 0 ? at::constant_pad_nd(x, widths, value) : x;
}

}  // namespace

at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const VisibleKeys& visible, double dropout) {
  if (visible.ranks) {
    return visible.ranks->attend({query, key, value, visible.starts, dropout});
  }
  return at::scaled_dot_product_attention(query, key, value, given(visible.mask), dropout,
                                          /*is_causal=*/!visible.mask.defined(), /*scale=*/{},
                                          /*enable_gqa=*/query.size(1) != key.size(1));
}

ContextRanksPtr dividing(const ContextRanksPtr& ranks) {
  const bool divides = ranks && (c10::GradMode::is_enabled() || ranks->divides_evaluation());
  return divides ? ranks : nullptr;
}

at::Tensor own_positions(const ContextRanks* ranks, const at::Tensor& x, int64_t dim,
                         int64_t value) {
  if (!ranks) return x;
  const at::Tensor positions = ranks->own_positions(x.size(dim)).to(x.device());
  return padded(*ranks, x, dim, value).index_select(dim, positions);
}

VisibleKeys visible_in_texts(const ContextRanksPtr& ranks, const at::Tensor& starts) {
  return {.ranks = ranks, .starts = padded(*ranks, starts, 1, kNoText)};
}

void check_divides_sequences(const ContextRanks& ranks, int64_t heads, int64_t kv_heads,
                             double attention_dropout) {
  ranks.check_heads(heads, kv_heads);
  if (attention_dropout == 0 || ranks.supports_dropout()) return;
  throw Error(ExitCode::kRecipe,
              "'cp' does not support dropout of attention weights with 'cp_comm_strategy: ring', "
              "where no rank has all weights of a token",
              "set the model's 'attention_dropout' to 0, or 'cp_comm_strategy: allgather'");
}

}  // namespace accel
