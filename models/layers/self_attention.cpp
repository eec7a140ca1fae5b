#include "models/layers/self_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

namespace accel {

at::Tensor text_starts(const at::Tensor& segments) {
  const int64_t length = segments.size(1);
  const at::Tensor places = at::arange(length, segments.options()).expand_as(segments);
  const at::Tensor begins = segments.slice(1, 1).ne(segments.slice(1, 0, length - 1));
  const at::Tensor first = at::zeros({segments.size(0), 1}, begins.options());
  return std::get<0>(at::cat({first, begins}, 1).to(places.scalar_type()).mul(places).cummax(1));
}

BlockDiagonalMask block_diagonal_mask(const at::Tensor& segments) {
  const BlockDiagonalMask whole = whole_text_mask(segments);
  return {whole.positions, whole.mask.tril()};
}

BlockDiagonalMask whole_text_mask(const at::Tensor& segments) {
  const at::Tensor starts = text_starts(segments);
  const at::Tensor places = at::arange(segments.size(1), segments.options()).expand_as(segments);
  return {places.sub(starts), starts.unsqueeze(2).eq(starts.unsqueeze(1)).unsqueeze(1)};
}

namespace {

/// [batch, length, width] to [batch, heads, length, head width]
at::Tensor by_head(const at::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// [heads, head width, width]
at::Tensor weight_by_head(const torch::nn::LinearImpl& linear, int64_t heads) {
  return linear.weight.view({heads, -1, linear.weight.size(1)});
}

/// [heads, 1, head width]
at::Tensor bias_by_head(const torch::nn::LinearImpl& linear, int64_t heads) {
  return linear.bias.view({heads, 1, -1});
}

/// Attention weights [batch, heads, length]; `query` is [heads, batch, head width].
at::Tensor attention_weights(const SelfAttention& by, const at::Tensor& query, const at::Tensor& x,
                             const at::Tensor& mask) {
  const at::Tensor asked = at::bmm(query, weight_by_head(by.key, by.heads)).transpose(0, 1);
  at::Tensor scores = at::bmm(asked, x.transpose(1, 2));
  if (by.key.bias.defined()) {
    const at::Tensor shift = query.mul(bias_by_head(by.key, by.heads)).sum(-1);
    scores = scores.add(shift.t().unsqueeze(-1));
  }
  if (mask.defined()) {
    const at::Tensor hidden = mask.squeeze(1).logical_not();
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return at::dropout(scores.softmax(-1), by.dropout, /*train=*/true);
}

at::Tensor attend_once(const SelfAttention& by, const at::Tensor& x, const at::Tensor& mask) {
  const at::Tensor all = by.query.forward(select_cls_token(x, TokenPositions::kFirst));
  const int64_t batch = x.size(0), width = all.size(2), head_width = width / by.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  const at::Tensor query = all.view({batch, by.heads, -1}).transpose(0, 1).mul(scale);
  const at::Tensor weights = attention_weights(by, query, x, mask);
  const at::Tensor seen = at::bmm(weights, x).transpose(0, 1);  // [heads, batch, width]
  at::Tensor out = at::bmm(seen, weight_by_head(by.value, by.heads).transpose(1, 2));
  if (by.value.bias.defined()) {
    const at::Tensor total = weights.sum(-1).t().unsqueeze(-1);  // [heads, batch, 1]
    out = out.add(total.mul(bias_by_head(by.value, by.heads)));
  }
  return out.transpose(0, 1).reshape({batch, 1, width});
}

}  // namespace

at::Tensor attend(const SelfAttention& by, const at::Tensor& x, const VisibleKeys& keys,
                  TokenPositions places) {
  if (places == TokenPositions::kFirst && by.key.is_plain() && by.value.is_plain()) {
    return attend_once(by, x, keys.mask);
  }
  const at::Tensor query = by.query.forward(select_cls_token(x, places));
  const at::Tensor y =
      attend(by_head(query, by.heads), by_head(by.key.forward(x), by.heads),
             by_head(by.value.forward(x), by.heads), keys, {.dropout = by.dropout});
  return y.transpose(1, 2).reshape_as(query);
}

}  // namespace accel
