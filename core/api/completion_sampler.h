// Sampling of completions by the trained model, for tasks that learn from their own completions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/api/text_generator.h"

namespace accel {

/// SamplingOptions with the other options of transformers' GenerationConfig that TRL's GRPO has.
struct CompletionOptions : SamplingOptions {
  std::optional<double> min_p = {};  ///< see infer/generation_config.h
  double repetition_penalty = 1;     ///< see infer/generation_config.h
  int64_t num_beams = 1;             ///< more than 1: beam search, without sampling
};

struct SampledPrompt {
  std::vector<int64_t> tokens;  ///< one or more
  uint64_t stream = 0;          ///< random stream of its completion
};

struct SampledCompletion {
  std::vector<int64_t> tokens;  ///< with the end token, if it ended
  std::string text;             ///< without special tokens
  bool ended = false;           ///< by an end token; false: by the length limit
};

class CompletionSampler {
 public:
  virtual ~CompletionSampler() = default;

  /// One completion per prompt, in their order, all continued at once. A function of the weights,
  /// the prompt, the options and the stream; of the other prompts by rounding only. Model and
  /// libtorch's generators stay unchanged; the model is in eval mode meanwhile. Throws
  /// DivergedError for non-finite logits.
  virtual std::vector<SampledCompletion> sample(std::span<const SampledPrompt> prompts,
                                                const CompletionOptions& options) = 0;
  /// The text of tokens, without special ones.
  virtual std::string text_of(std::span<const int64_t> tokens) const = 0;
  /// Tokens that the model sees at most; 0: unlimited.
  virtual int64_t max_context() const = 0;
  /// Whether the model has a key-value cache.
  virtual bool is_cached() const = 0;
  /// Whether any token ends a completion.
  virtual bool has_end_token() const = 0;
};

}  // namespace accel
