#include "models/layers/decoding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <optional>

namespace accel {
namespace {

constexpr int64_t kFirstRoom = 64;  // tokens

/// A larger tensor that starts with the first `used` tokens of `old`, which may be undefined.
at::Tensor with_room(const at::Tensor& old, const at::Tensor& like, int64_t used, int64_t room) {
  at::Tensor larger = at::empty({like.size(0), like.size(1), room, like.size(3)}, like.options());
  if (used > 0) larger.narrow(2, 0, used).copy_(old.narrow(2, 0, used));
  return larger;
}

/// The mask of the new tokens over all tokens; none if all are visible or the mask is the standard
/// causal one.
std::optional<at::Tensor> seen_by(const at::Tensor& query, int64_t before) {
  const int64_t added = query.size(2);
  if (before == 0 || added == 1) return std::nullopt;
  const auto flags = at::TensorOptions().dtype(at::kBool).device(query.device());
  return at::ones({added, before + added}, flags).tril(before);
}

}  // namespace

void LayerCache::reserve(const at::Tensor& key, int64_t length) {
  const int64_t room = keys_.defined() ? keys_.size(2) : 0;
  if (length <= room) return;
  const int64_t more = std::max({length, 2 * room, kFirstRoom});
  keys_ = with_room(keys_, key, length_, more);
  values_ = with_room(values_, key, length_, more);
}

at::Tensor LayerCache::attend(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value) {
  const int64_t before = length_, added = key.size(2);
  reserve(key, before + added);
  keys_.narrow(2, before, added).copy_(key);
  values_.narrow(2, before, added).copy_(value);
  length_ += added;
  return at::scaled_dot_product_attention(
      query, keys_.narrow(2, 0, length_), values_.narrow(2, 0, length_), seen_by(query, before),
      /*dropout_p=*/0.0, /*is_causal=*/before == 0, /*scale=*/{},
      /*enable_gqa=*/query.size(1) != key.size(1));
}

}  // namespace accel
