// Attention whose scores are scaled, capped and limited to a window.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace accel {

struct AttentionScores {
  std::optional<double> scale = {};  ///< of query . key; none: 1 / sqrt(width)
  /// Scores become softcap * tanh(score / softcap) (Gemma 2, arXiv:2408.00118); 0: they do not.
  double softcap = 0;
  /// The last tokens that a token attends to, with itself (Mistral 7B, arXiv:2310.06825); 0: all.
  int64_t window = 0;
  double dropout = 0;  ///< of attention weights
  /// Added to scaled scores, broadcast to [batch, heads, tokens, keys]; undefined: nothing.
  at::Tensor bias = {};
};

struct AttentionInputs {
  const at::Tensor &query, &key, &value;  ///< [batch, heads, tokens, width]
  const at::Tensor& mask;                 ///< bool, true for visible keys; undefined: none
  bool is_causal;                         ///< without a mask: each token sees those before it
};

/// [batch, heads, tokens, width]; keys and values may have fewer heads than queries. The window of
/// `scores` is part of the mask.
at::Tensor scored_attention(const AttentionInputs& inputs, const AttentionScores& scores);

/// The causal mask of a window in a sequence, bool [length, length], true for visible keys.
at::Tensor window_mask(int64_t length, int64_t window, at::Device device);

}  // namespace accel
