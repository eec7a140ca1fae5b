// Text generation interface for callbacks.
#pragma once

#include <cstdint>
#include <string>

namespace accel {

/// Sampling options.
struct SamplingOptions {
  double temperature = 1;  ///< of the softmax; 0: greedy decoding
  int64_t top_k = 0;       ///< sample from the k most likely tokens; 0: from all
  double top_p = 1;        ///< nucleus sampling: total probability of the candidates
  int64_t max_new_tokens = 100;
  int64_t seed = 42;
};

struct GeneratedText {
  std::string text;    ///< without the prompt
  int64_t tokens = 0;  ///< number of generated tokens
  bool ended = false;  ///< by an end token, which is not counted
};

class TextGenerator {
 public:
  virtual ~TextGenerator() = default;

  /// Throws Error (kRecipe) for a prompt without tokens of the model. The weights may be
  /// uninitialized.
  virtual void check_prompt(const std::string& prompt) const = 0;

  /// Whether texts continue their prompts; false: they are targets of these.
  virtual bool continues_prompts() const { return true; }

  /// The continuation of `prompt`: a function of the weights, the prompt, the options and `stream`,
  /// which separates random streams of one seed. Restores the model's mode and libtorch's
  /// generators. Throws as check_prompt(), and DivergedError for non-finite logits.
  virtual GeneratedText generate(const std::string& prompt, const SamplingOptions& options,
                                 uint64_t stream) = 0;
};

}  // namespace accel
