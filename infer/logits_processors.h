// Logits processors: change the scores of the next token, in transformers' order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/api/sample_rng.h"
#include "infer/generation_config.h"

namespace accel {

/// The sequence that a token is chosen for.
struct ScoredSequence {
  std::span<const int64_t> tokens;  ///< prompt and generated tokens
  int64_t prompt = 0;               ///< length of the prompt
  int64_t max_length = 0;           ///< of the whole sequence
};

/// Changes `scores`, logits or log-probabilities of all tokens, by transformers' processors in its
/// order: with `do_sample` also temperature and the filters of sampling, which set scores to -inf.
/// A temperature of 0 is none. Throws Error (kRecipe) for a biased token beyond the vocabulary.
void process_logits(const GenerationConfig& config, const ScoredSequence& sequence,
                    std::span<float> scores);

/// Throws DivergedError for a NaN, +inf, or where all are -inf.
void check_logits(std::span<const float> logits);

/// Throws Error (kRecipe) where processors suppress every token.
void check_not_suppressed(std::span<const float> scores);

/// The token with the largest score, of equal ones the first.
int64_t argmax_token(std::span<const float> scores);

/// Samples a token by the softmax of `scores`. Takes one number of `rng`.
int64_t sample_token(std::span<const float> scores, SampleRng& rng);

/// log_softmax in place.
void to_log_probabilities(std::span<float> scores);

}  // namespace accel
