// Attention in float32 on the CPU, a head at a time.
#pragma once

#include <optional>
#include <tuple>

#include "core/batch.h"

namespace accel {

/// What ATen's attention on the CPU takes: queries, keys and values [batch, heads, length, width].
struct AttentionCall {
  const at::Tensor &query, &key, &value;
  double dropout;
  bool is_causal;                         ///< query i sees the keys up to i
  const std::optional<at::Tensor>& mask;  ///< is added to the scores
  std::optional<double> scale;            ///< of the scores; 1 / sqrt(width) where there is none
};

/// Whether attend() computes it: float32 whose last dimension is contiguous, no dropout, more than
/// one query, as many heads of keys as of queries, no mask or one of float32 with two or four
/// dimensions, and so few keys that whole rows of scores are faster than ATen's parts of them.
bool attends(const AttentionCall& call);

/// The values' averages, as [batch, length, heads, width] in memory, and of each query the log of
/// the sum of its exponentials. Wants attends(). Reference:
/// at::_scaled_dot_product_flash_attention_for_cpu, within 1e-6 of the greatest value; the same
/// bits for any number of threads. Beside the results it takes 1 MiB of memory for each thread.
std::tuple<at::Tensor, at::Tensor> attend(const AttentionCall& call);

/// What attend() gave, and the gradient for the first of it.
struct Attended {
  const at::Tensor &slope, &out, &logs;
};

/// Whether attend_backward() computes it: attends(), with results of the same layout.
bool attends(const AttentionCall& call, const Attended& attended);

using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Of queries, keys and values, as [batch, length, heads, width] in memory. Reference: ATen's
/// _backward of the same operator, within 1e-5 of the greatest; as attend() else.
AttentionGradients attend_backward(const AttentionCall& call, const Attended& attended);

}  // namespace accel
