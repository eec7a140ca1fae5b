// Texts from a language model, for those who need not know how one is made.
#pragma once

#include <cstdint>
#include <string>

namespace accel {

/// How each next token is chosen, and when to end.
struct SamplingOptions {
  double temperature = 1;  ///< below 1: likely tokens become likelier; 0: always the likeliest
  int64_t top_k = 0;       ///< of so many of the likeliest tokens; 0: of all
  double top_p = 1;        ///< of the likeliest tokens that together have this share
  int64_t max_new_tokens = 100;
  int64_t seed = 42;
};

struct GeneratedText {
  std::string text;    ///< what follows the prompt
  int64_t tokens = 0;  ///< that were added
  bool ended = false;  ///< by an end token, which is not among them
};

class TextGenerator {
 public:
  virtual ~TextGenerator() = default;

  /// What the model writes behind `prompt`: a function of its weights, the prompt, the options and
  /// `stream`, which tells apart what is drawn with one seed. Leaves the model, its training mode
  /// and libtorch's generators as they were. Throws Error (kRecipe) for a prompt that the model has
  /// no tokens for, and DivergedError when the model gives no numbers.
  virtual GeneratedText generate(const std::string& prompt, const SamplingOptions& options,
                                 uint64_t stream) = 0;
};

}  // namespace accel
