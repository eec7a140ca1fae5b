#include "models/layers/context_parallel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"

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
                  const VisibleKeys& visible, const AttentionScores& scores) {
  if (!visible.ranks) {
    const bool causal = visible.is_causal && !visible.mask.defined();
    return scored_attention({query, key, value, visible.mask, causal}, scores);
  }
  const double width = static_cast<double>(query.size(3));
  const at::Tensor scaled = scores.scale ? query.mul(*scores.scale * std::sqrt(width)) : query;
  return visible.ranks->attend({.query = scaled,
                                .key = key,
                                .value = value,
                                .starts = visible.starts,
                                .dropout = scores.dropout,
                                .softcap = scores.softcap,
                                .is_causal = visible.is_causal,
                                .visible = visible.visible});
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

VisibleKeys visible_in_window(const VisibleKeys& visible, int64_t length, int64_t window,
                              const at::TensorOptions& places) {
  VisibleKeys near = visible;
  const at::Tensor first = at::arange(visible.ranks->padded_length(length), places)
                               .sub(window - 1)
                               .clamp_min(0)
                               .unsqueeze(0);
  near.starts = visible.starts.defined() ? visible.starts.maximum(first) : first;
  return near;
}

VisibleKeys visible_in_lengths(const ContextRanksPtr& ranks, const at::Tensor& lengths,
                               int64_t length, const at::TensorOptions& places) {
  VisibleKeys keys = {.ranks = ranks, .is_causal = false};
  const int64_t padded_length = ranks ? ranks->padded_length(length) : length;
  if (!lengths.defined() && padded_length == length) return keys;
  const at::Tensor all = at::arange(padded_length, places).unsqueeze(0);
  const at::Tensor visible = lengths.defined() ? all.lt(lengths.unsqueeze(1)) : all.lt(length);
  if (ranks) {
    keys.visible = visible;
  } else {
    keys.mask = visible.unsqueeze(1).unsqueeze(1);
  }
  return keys;
}

std::unique_ptr<RandomScope> own_random_stream(const ContextRanksPtr& ranks, at::Device device) {
  return ranks ? ranks->own_random_stream(device) : nullptr;
}

void check_divides_sequences(const ContextRanks& ranks, int64_t heads, int64_t kv_heads,
                             const AttentionScores& scores) {
  ranks.check_heads(heads, kv_heads);
  if (ranks.has_whole_scores()) return;
  const auto refuse = [](const char* what, const char* option) {
    throw Error(
        ExitCode::kRecipe,
        text("'cp' does not support {} with 'cp_comm_strategy: ring', where no rank has all "
             "scores of a token",
             what),
        text("leave the model's '{}' out, or set 'cp_comm_strategy: allgather'", option));
  };
  if (scores.dropout > 0) refuse("dropout of attention weights", "attention_dropout");
  if (scores.softcap > 0) refuse("capped scores", "attn_logit_softcapping");
}

}  // namespace accel
