#include "models/layers/decoding.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace accel {
namespace {

constexpr int64_t kFirstRoom = 64;  // tokens

/// The mask of the new tokens over the last `keys` of all tokens; undefined if all are visible or
/// the mask is the standard causal one.
at::Tensor seen_by(const at::Tensor& query, int64_t keys, int64_t window) {
  const int64_t added = query.size(2), before = keys - added;
  const bool slides = window > 0 && window < keys;
  if (!slides && (before == 0 || added == 1)) return {};
  const auto flags = at::TensorOptions().dtype(at::kBool).device(query.device());
  const at::Tensor causal = at::ones({added, keys}, flags).tril(before);
  return slides ? causal.triu(before - window + 1) : causal;
}

/// `lengths` in rows of new positions, int64 [rows, count].
at::Tensor positions_after(std::span<const int64_t> lengths, int64_t count,
                           const at::TensorOptions& options) {
  const at::Tensor first =
      at::tensor(at::ArrayRef<int64_t>(lengths.data(), lengths.size())).to(options.device());
  return first.unsqueeze(1).add(at::arange(count, first.options()));
}

}  // namespace

void LayerCache::reserve(const at::Tensor& key, int64_t length) {
  const int64_t old_rows = keys_.defined() ? keys_.size(0) : 0;
  const int64_t old_room = keys_.defined() ? keys_.size(2) : 0;
  const int64_t rows = std::max({rows_.rows, rows_.first + key.size(0), old_rows});
  lengths_.resize(static_cast<size_t>(rows));
  if (rows == old_rows && length <= old_room) return;
  const int64_t first_room = rows_.capacity > 0 ? rows_.capacity : kFirstRoom;
  const int64_t room = length <= old_room ? old_room : std::max({length, 2 * old_room, first_room});
  const int64_t used = *std::max_element(lengths_.begin(), lengths_.end());
  for (at::Tensor* cached : {&keys_, &values_}) {
    // Zeros: masked keys and values are multiplied by 0, and must be finite.
    at::Tensor larger = at::zeros({rows, key.size(1), room, key.size(3)}, key.options());
    if (old_rows > 0) {
      larger.narrow(0, 0, old_rows).narrow(2, 0, used).copy_(cached->narrow(2, 0, used));
    }
    *cached = larger;
  }
}

at::Tensor LayerCache::attend(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const AttentionScores& scores) {
  const int64_t batch = key.size(0), added = key.size(2), first = rows_.first;
  int64_t longest = 0, shortest = length(first);
  for (int64_t row = first; row < first + batch; ++row) {
    longest = std::max(longest, length(row));
    shortest = std::min(shortest, length(row));
  }
  reserve(key, longest + added);
  if (longest != shortest) return attend_ragged(query, key, value, scores);
  const at::Tensor keys = keys_.narrow(0, first, batch), values = values_.narrow(0, first, batch);
  keys.narrow(2, longest, added).copy_(key);
  values.narrow(2, longest, added).copy_(value);
  const int64_t length = longest + added;
  for (int64_t row = first; row < first + batch; ++row) set_length(row, length);
  // Tokens before the windows of all new ones are left out.
  const int64_t reach = scores.window > 0 ? scores.window + added - 1 : length;
  const int64_t count = std::min(length, reach);
  const at::Tensor mask = seen_by(query, count, scores.window);
  return scored_attention(
      {query, keys.narrow(2, length - count, count), values.narrow(2, length - count, count), mask,
       /*is_causal=*/!mask.defined() && count == added},
      scores);
}

at::Tensor LayerCache::attend_ragged(const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value, const AttentionScores& scores) {
  const int64_t batch = key.size(0), added = key.size(2), first = rows_.first;
  const std::span<const int64_t> lengths(&lengths_[static_cast<size_t>(first)],
                                         static_cast<size_t>(batch));
  const at::Tensor positions =
      positions_after(lengths, added, at::TensorOptions().device(key.device()));
  const int64_t length = *std::max_element(lengths.begin(), lengths.end()) + added;
  const at::Tensor keys = keys_.narrow(0, first, batch), values = values_.narrow(0, first, batch);
  const at::Tensor index = positions.view({batch, 1, added, 1}).expand_as(key);
  keys.scatter_(2, index, key);
  values.scatter_(2, index, value);
  const at::Tensor of_keys = at::arange(length, positions.options());
  at::Tensor mask = of_keys.le(positions.unsqueeze(2));
  if (scores.window > 0) {
    mask = mask.logical_and(of_keys.gt(positions.unsqueeze(2).sub(scores.window)));
  }
  for (int64_t row = first; row < first + batch; ++row) {
    lengths_[static_cast<size_t>(row)] += added;
  }
  return scored_attention({query, keys.narrow(2, 0, length), values.narrow(2, 0, length),
                           mask.unsqueeze(1), /*is_causal=*/false},
                          scores);
}

void LayerCache::gather(std::span<const int64_t> sources) {
  if (!keys_.defined()) return;
  std::vector<int64_t> lengths;
  for (const int64_t source : sources) lengths.push_back(length(source));
  const int64_t used = *std::max_element(lengths.begin(), lengths.end());
  const auto count = static_cast<int64_t>(sources.size());
  const at::Tensor index =
      at::tensor(at::ArrayRef<int64_t>(sources.data(), sources.size())).to(keys_.device());
  for (at::Tensor* cached : {&keys_, &values_}) {
    const at::Tensor filled = cached->narrow(2, 0, used);
    filled.narrow(0, 0, count).copy_(filled.index_select(0, index));
  }
  std::copy(lengths.begin(), lengths.end(), lengths_.begin());
}

void LayerCache::copy_row(int64_t from, int64_t to) {
  if (!keys_.defined()) return;
  const int64_t used = length(from);
  for (at::Tensor* cached : {&keys_, &values_}) {
    cached->select(0, to).narrow(1, 0, used).copy_(cached->select(0, from).narrow(1, 0, used));
  }
  set_length(to, used);
}

bool KeyValueCache::has_equal_rows(int64_t batch) const {
  for (int64_t row = rows_.first; row < rows_.first + batch; ++row) {
    if (length(row) != length()) return false;
  }
  return true;
}

at::Tensor KeyValueCache::positions(const at::Tensor& tokens) const {
  const int64_t batch = tokens.size(0), count = tokens.size(1);
  if (has_equal_rows(batch)) return at::arange(length(), length() + count, tokens.options());
  std::vector<int64_t> lengths;
  for (int64_t row = rows_.first; row < rows_.first + batch; ++row) lengths.push_back(length(row));
  return positions_after(lengths, count, tokens.options());
}

void KeyValueCache::clear_row(int64_t row) {
  for (LayerCache& layer : layers_) layer.set_length(row, 0);
}

void KeyValueCache::gather(std::span<const int64_t> sources) {
  for (LayerCache& layer : layers_) layer.gather(sources);
}

void KeyValueCache::copy_row(int64_t from, int64_t to) {
  for (LayerCache& layer : layers_) layer.copy_row(from, to);
}

}  // namespace accel
