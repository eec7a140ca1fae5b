// Scaled dot-product attention in float32 on the CPU, computed head by head.
#pragma once

#include <optional>
#include <tuple>

#include "core/api/batch.h"

namespace accel {

/// Arguments of ATen's CPU flash attention; tensors are [batch, heads, length, width].
struct AttentionCall {
  const at::Tensor &query, &key, &value;
  double dropout;
  bool is_causal;                         ///< query i attends to keys 0 to i
  const std::optional<at::Tensor>& mask;  ///< added to the scores
  std::optional<double> scale;            ///< of the scores; default 1 / sqrt(width)
};

/// Whether attend() supports the call: float32 with a contiguous last dimension, no dropout, more
/// than one query, equal numbers of query and key heads, no mask or a float32 mask with two or four
/// dimensions, and few enough keys that whole score rows are faster than ATen's tiles.
bool attends(const AttentionCall& call);

/// Output, [batch, length, heads, width] in memory, and the log-sum-exp of each query. Requires
/// attends(). Reference: at::_scaled_dot_product_flash_attention_for_cpu, within 1e-6 of the
/// largest value; the result does not depend on the number of threads. Uses 1 MiB of scratch memory
/// per thread.
std::tuple<at::Tensor, at::Tensor> attend(const AttentionCall& call);

/// Results of attend() and the gradient of its output.
struct Attended {
  const at::Tensor &slope, &out, &logs;
};

/// Whether attend_backward() supports the call: attends(), and results of the same layout.
bool attends(const AttentionCall& call, const Attended& attended);

using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Gradients of query, key and value, [batch, length, heads, width] in memory, or side by side in
/// one tensor if these are the parts of one. Reference: ATen's backward operator, within 1e-5 of
/// the largest value; otherwise as attend().
AttentionGradients attend_backward(const AttentionCall& call, const Attended& attended);

}  // namespace accel
