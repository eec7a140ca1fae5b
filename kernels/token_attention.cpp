#include "kernels/token_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/token_sums.h"
#include "kernels/few_rows.h"

namespace accel {
namespace {

constexpr int64_t kLeastProducts = 32768;  // of a thread

/// The tokens of a row that a query sees, of one head.
struct SeenTokens {
  const char* data;
  const float* scales;  ///< null: 1
  StoredNumber type;
  int64_t step, count, width;  ///< in numbers; tokens
};

SeenTokens seen_tokens(const CachedTokens& from, int64_t row, int64_t head, int64_t first,
                       int64_t count) {
  const at::Tensor& states = from.states;
  const int64_t at = row * states.stride(0) + head * states.stride(1) + first * states.stride(2);
  SeenTokens out = {static_cast<const char*>(states.const_data_ptr()) + at * states.element_size(),
                    nullptr,
                    StoredNumber::kFloat32,
                    states.stride(2),
                    count,
                    states.size(3)};
  if (states.scalar_type() == at::kBFloat16) out.type = StoredNumber::kBFloat16;
  if (states.scalar_type() == at::kChar) {
    out.type = StoredNumber::kInt8;
    out.scales = from.scales.const_data_ptr<float>() + row * from.scales.stride(0) +
                 head * from.scales.stride(1) + first * from.scales.stride(2);
  }
  return out;
}

/// Queries that share a head of keys, with zeros behind each up to a multiple of kSumLanes.
struct Queries {
  const float* data;
  int64_t count, step;
};

/// Computes attention in one thread.
class QueryGroup {
 public:
  QueryGroup(const TokenAttention& by, int64_t queries)
      : by_(by),
        queries_(queries),
        lanes_(static_cast<size_t>(kWeightRows * queries * kSumLanes)),
        products_(static_cast<size_t>(kWeightRows * queries)),
        logs_(static_cast<size_t>(queries)),
        shares_(static_cast<size_t>(queries)) {}

  /// `out`: [queries, width of values].
  void compute(int64_t row, int64_t head, const Queries& queries, float* out) {
    const int64_t length = by_.lengths[static_cast<size_t>(row)];
    const int64_t count = by_.window > 0 ? std::min(length, by_.window) : length;
    write_scores(seen_tokens(by_.keys, row, head, length - count, count), queries);
    auto scale = static_cast<float>(by_.scale);
    if (by_.softcap > 0) {
      const auto cap = static_cast<float>(by_.softcap);
      for (float& score : scores_) score = std::tanh(score * scale / cap) * cap;
      scale = 1;
    }
    attention_weights_cpu({.products = scores_.data(),
                           .count = queries_,
                           .keys = count,
                           .seen_first = count,
                           .seen_more = 0,
                           .scale = scale,
                           .mask = nullptr,
                           .mask_row = 0,
                           .mask_key = 0},
                          {logs_.data(), 1, shares_.data()});
    const SeenTokens values = seen_tokens(by_.values, row, head, length - count, count);
    add_values(values, out);
    scale_rows_cpu({out, queries_, values.width, values.width}, shares_.data());
  }

 private:
  /// scores_ [queries, tokens].
  void write_scores(const SeenTokens& keys, const Queries& queries) {
    scores_.resize(static_cast<size_t>(queries_ * keys.count));
    for (int64_t first = 0; first < keys.count; first += kWeightRows) {
      const int64_t count = std::min(kWeightRows, keys.count - first);
      std::array<const void*, kWeightRows> rows;
      for (int64_t i = 0; i < kWeightRows; ++i) {
        // Absent tokens repeat the first, and their sums are not read.
        const int64_t token = first + (i < count ? i : 0);
        rows[static_cast<size_t>(i)] = keys.data + token * keys.step * bytes_of(keys.type);
      }
      std::fill(lanes_.begin(), lanes_.end(), 0.0F);
      few_rows_cpu({.x = queries.data,
                    .x_type = StoredNumber::kFloat32,
                    .rows = queries_,
                    .x_step = queries.step,
                    .type = keys.type,
                    .rows_of_weight = rows.data(),
                    .scales = nullptr,
                    .count = keys.width,
                    .ahead = 0,
                    .rounds = false},
                   lanes_.data());
      sum_lanes(lanes_.data(), count * queries_, products_.data());
      for (int64_t i = 0; i < count; ++i) {
        const float scale = keys.scales != nullptr ? keys.scales[first + i] : 1.0F;
        for (int64_t query = 0; query < queries_; ++query) {
          scores_[static_cast<size_t>(query * keys.count + first + i)] =
              products_[static_cast<size_t>(i * queries_ + query)] * scale;
        }
      }
    }
  }

  template <typename Number>
  void add_numbers(const SeenTokens& values, float* out) const {
    token_sums_cpu(
        TokenStates<Number>{static_cast<const Number*>(static_cast<const void*>(values.data)),
                            values.step, values.count, values.width},
        {scores_.data(), values.scales, queries_}, out);
  }
  void add_values(const SeenTokens& values, float* out) const {
    switch (values.type) {
      case StoredNumber::kFloat32:
        return add_numbers<float>(values, out);
      case StoredNumber::kBFloat16:
        return add_numbers<uint16_t>(values, out);
      case StoredNumber::kInt8:
        return add_numbers<int8_t>(values, out);
    }
  }

  const TokenAttention& by_;
  int64_t queries_;
  std::vector<float> lanes_, products_, scores_, logs_, shares_;
};

/// Float32 rows with zeros behind them.
at::Tensor padded_rows(const at::Tensor& query) {
  const int64_t width = query.size(3), step = (width + kSumLanes - 1) / kSumLanes * kSumLanes;
  const at::Tensor flat = query.to(at::kFloat).reshape({-1, width});
  return step == width ? flat.contiguous() : at::constant_pad_nd(flat, {0, step - width});
}

}  // namespace

bool takes_token_attention(const at::Tensor& query) {
  return query.size(2) == 1 && query.size(3) <= kMostTokenWidth && query.numel() > 0 &&
         FewRowsScope::is_active() && kernels() == Kernels::kFused && query.is_cpu() &&
         !at::GradMode::is_enabled() &&
         (query.scalar_type() == at::kFloat || query.scalar_type() == at::kBFloat16);
}

at::Tensor token_attention(const at::Tensor& query, const TokenAttention& by) {
  const int64_t rows = query.size(0), heads = query.size(1), width = by.values.states.size(3);
  const int64_t groups = by.keys.states.size(1), queries = heads / groups;
  const at::Tensor padded = padded_rows(query);
  at::Tensor out = at::empty({rows, heads, 1, width}, padded.options());
  const auto* const from = padded.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  const int64_t step = padded.size(1);
  const int64_t longest = *std::max_element(by.lengths.begin(), by.lengths.end());
  const int64_t grain = std::max<int64_t>(1, kLeastProducts / (longest * queries * width));
  for_each_part(rows * groups, grain, [&](int64_t begin, int64_t end) {
    QueryGroup group(by, queries);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * queries;
      group.compute(i / groups, i % groups, {from + first * step, queries, step},
                    to + first * width);
    }
  });
  return out.to(query.scalar_type());
}

}  // namespace accel
