#include "models/layers/decoding.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

at::ScalarType type_of(CacheDtype dtype) {
  if (dtype == CacheDtype::kInt8) return at::kChar;
  return dtype == CacheDtype::kBf16 ? at::kBFloat16 : at::kFloat;
}

/// Codes of each row, multiples of its scale: the largest magnitude has the code 127.
std::pair<at::Tensor, at::Tensor> to_int8(const at::Tensor& states) {
  const at::Tensor values = states.to(at::kFloat);
  const at::Tensor scales = values.abs().amax(-1, /*keepdim=*/true).div(127);
  const at::Tensor codes = values.div(scales.clamp_min(std::numeric_limits<float>::min())).round();
  return {codes.to(at::kChar), scales};
}

}  // namespace

void CachedStates::reserve(const at::Tensor& states, const CacheRows& wanted, int64_t room,
                           int64_t used) {
  const at::ScalarType own = states.scalar_type();
  const at::ScalarType type = wanted.dtype ? type_of(*wanted.dtype) : own;
  const std::vector<at::Tensor> before = parts();
  const auto larger = [&](int64_t width, at::ScalarType of) {
    // Zeros: masked keys and values are multiplied by 0, and must be finite.
    return at::zeros({wanted.rows, states.size(1), room, width}, states.options().dtype(of));
  };
  states_ = larger(states.size(3), type);
  if (type == at::kChar) scales_ = larger(1, at::kFloat);
  const std::vector<at::Tensor> after = parts();
  for (size_t i = 0; i < before.size(); ++i) {
    after[i].narrow(0, 0, before[i].size(0)).narrow(2, 0, used).copy_(before[i].narrow(2, 0, used));
  }
}

void CachedStates::write(const Range& at, const at::Tensor& states) {
  const auto part = [&](const at::Tensor& cached) {
    return cached.narrow(0, at.first, at.rows).narrow(2, at.begin, at.count);
  };
  if (!scales_.defined()) {
    part(states_).copy_(states);
    return;
  }
  const auto [codes, scales] = to_int8(states);
  part(states_).copy_(codes);
  part(scales_).copy_(scales);
}

void CachedStates::scatter(int64_t first, const at::Tensor& positions, const at::Tensor& states) {
  const int64_t rows = states.size(0);
  const at::Tensor index = positions.view({rows, 1, -1, 1});
  const auto put = [&](const at::Tensor& cached, const at::Tensor& values) {
    cached.narrow(0, first, rows).scatter_(2, index.expand_as(values), values);
  };
  if (!scales_.defined()) return put(states_, states.to(states_.scalar_type()));
  const auto [codes, scales] = to_int8(states);
  put(states_, codes);
  put(scales_, scales);
}

at::Tensor CachedStates::read(const Range& range, at::ScalarType type) const {
  const auto part = [&](const at::Tensor& cached) {
    return cached.narrow(0, range.first, range.rows).narrow(2, range.begin, range.count);
  };
  const at::Tensor states = part(states_).to(type);
  return scales_.defined() ? states.mul(part(scales_).to(type)) : states;
}

CachedTokens CachedStates::stored(int64_t first, int64_t rows) const {
  return {states_.narrow(0, first, rows),
          scales_.defined() ? scales_.narrow(0, first, rows) : at::Tensor()};
}

void CachedStates::gather(const at::Tensor& index, int64_t used) {
  for (const at::Tensor& cached : parts()) {
    const at::Tensor filled = cached.narrow(2, 0, used);
    filled.narrow(0, 0, index.size(0)).copy_(filled.index_select(0, index));
  }
}

void CachedStates::copy_row(int64_t from, int64_t to, int64_t used) {
  for (const at::Tensor& cached : parts()) {
    cached.select(0, to).narrow(1, 0, used).copy_(cached.select(0, from).narrow(1, 0, used));
  }
}

int64_t CachedStates::bytes() const {
  size_t bytes = 0;
  for (const at::Tensor& cached : parts()) bytes += cached.nbytes();
  return static_cast<int64_t>(bytes);
}

std::vector<at::Tensor> CachedStates::parts() const {
  std::vector<at::Tensor> out;
  if (states_.defined()) out.push_back(states_);
  if (scales_.defined()) out.push_back(scales_);
  return out;
}

void LayerCache::reserve(const at::Tensor& key, int64_t length) {
  const int64_t old_rows = keys_.rows(), old_room = keys_.room();
  CacheRows wanted = rows_;
  wanted.rows = std::max({rows_.rows, rows_.first + key.size(0), old_rows});
  lengths_.resize(static_cast<size_t>(wanted.rows));
  if (wanted.rows == old_rows && length <= old_room) return;
  const int64_t first_room = rows_.capacity > 0 ? rows_.capacity : kFirstRoom;
  const int64_t room = length <= old_room ? old_room : std::max({length, 2 * old_room, first_room});
  const int64_t used = *std::max_element(lengths_.begin(), lengths_.end());
  keys_.reserve(key, wanted, room, used);
  values_.reserve(key, wanted, room, used);
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
  if (takes_token_attention(query) && !scores.bias.defined()) {
    return attend_token(query, key, value, scores);
  }
  if (longest != shortest) return attend_ragged(query, key, value, scores);
  keys_.write({first, batch, longest, added}, key);
  values_.write({first, batch, longest, added}, value);
  const int64_t length = longest + added;
  for (int64_t row = first; row < first + batch; ++row) set_length(row, length);
  // Tokens before the windows of all new ones are left out.
  const int64_t reach = scores.window > 0 ? scores.window + added - 1 : length;
  const int64_t count = std::min(length, reach);
  const at::Tensor mask = seen_by(query, count, scores.window);
  const CachedStates::Range seen = {first, batch, length - count, count};
  return scored_attention(
      {query, keys_.read(seen, key.scalar_type()), values_.read(seen, value.scalar_type()), mask,
       /*is_causal=*/!mask.defined() && count == added},
      scores);
}

at::Tensor LayerCache::attend_token(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const AttentionScores& scores) {
  const int64_t batch = key.size(0), first = rows_.first;
  const auto lengths =
      std::span(lengths_).subspan(static_cast<size_t>(first), static_cast<size_t>(batch));
  const bool has_equal_rows = std::count(lengths.begin(), lengths.end(), lengths[0]) == batch;
  const int64_t count = has_equal_rows ? batch : 1;  // rows of a write
  for (int64_t row = 0; row < batch; row += count) {
    const CachedStates::Range at = {first + row, count, lengths[static_cast<size_t>(row)], 1};
    keys_.write(at, key.narrow(0, row, count));
    values_.write(at, value.narrow(0, row, count));
  }
  for (int64_t& length : lengths) ++length;
  const double usual = 1 / std::sqrt(static_cast<double>(query.size(3)));
  return token_attention(query, {.keys = keys_.stored(first, batch),
                                 .values = values_.stored(first, batch),
                                 .lengths = lengths,
                                 .window = scores.window,
                                 .scale = scores.scale.value_or(usual),
                                 .softcap = scores.softcap});
}

at::Tensor LayerCache::attend_ragged(const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value, const AttentionScores& scores) {
  const int64_t batch = key.size(0), added = key.size(2), first = rows_.first;
  const std::span<const int64_t> lengths(&lengths_[static_cast<size_t>(first)],
                                         static_cast<size_t>(batch));
  const at::Tensor positions =
      positions_after(lengths, added, at::TensorOptions().device(key.device()));
  const int64_t length = *std::max_element(lengths.begin(), lengths.end()) + added;
  keys_.scatter(first, positions, key);
  values_.scatter(first, positions, value);
  const at::Tensor of_keys = at::arange(length, positions.options());
  at::Tensor mask = of_keys.le(positions.unsqueeze(2));
  if (scores.window > 0) {
    mask = mask.logical_and(of_keys.gt(positions.unsqueeze(2).sub(scores.window)));
  }
  for (int64_t row = first; row < first + batch; ++row) {
    lengths_[static_cast<size_t>(row)] += added;
  }
  const CachedStates::Range seen = {first, batch, 0, length};
  return scored_attention({query, keys_.read(seen, key.scalar_type()),
                           values_.read(seen, value.scalar_type()), mask.unsqueeze(1),
                           /*is_causal=*/false},
                          scores);
}

void LayerCache::gather(std::span<const int64_t> sources) {
  if (keys_.is_empty()) return;
  std::vector<int64_t> lengths;
  for (const int64_t source : sources) lengths.push_back(length(source));
  const int64_t used = *std::max_element(lengths.begin(), lengths.end());
  const at::Tensor index =
      at::tensor(at::ArrayRef<int64_t>(sources.data(), sources.size())).to(keys_.device());
  keys_.gather(index, used);
  values_.gather(index, used);
  std::copy(lengths.begin(), lengths.end(), lengths_.begin());
}

void LayerCache::copy_row(int64_t from, int64_t to) {
  if (keys_.is_empty()) return;
  const int64_t used = length(from);
  keys_.copy_row(from, to, used);
  values_.copy_row(from, to, used);
  set_length(to, used);
}

int64_t KeyValueCache::bytes() const {
  int64_t bytes = 0;
  for (const LayerCache& layer : layers_) bytes += layer.bytes();
  return bytes;
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

void KeyValueCache::set_length(int64_t row, int64_t length) {
  for (LayerCache& layer : layers_) layer.set_length(row, length);
}

void KeyValueCache::gather(std::span<const int64_t> sources) {
  for (LayerCache& layer : layers_) layer.gather(sources);
}

void KeyValueCache::copy_row(int64_t from, int64_t to) {
  for (LayerCache& layer : layers_) layer.copy_row(from, to);
}

}  // namespace accel
