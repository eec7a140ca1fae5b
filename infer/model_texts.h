// Text generation: token sampling, and a language model with the codec of its training data.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/api/data_shape.h"
#include "core/api/model.h"
#include "core/api/sample_rng.h"
#include "core/api/text_generator.h"
#include "core/recipe/node.h"
#include "train/job/staged_forward.h"

namespace accel {

struct GenerationRequest {
  SamplingOptions sampling;
  uint64_t stream = 0;        ///< random stream of the seed
  std::set<int64_t> ends;     ///< end tokens
  int64_t window = 0;         ///< context length of a model that declares none; 0: unlimited
  StagedForward staged = {};  ///< of a model in pipeline stages; null: the whole model is here
};

struct GeneratedTokens {
  std::vector<int64_t> tokens;  ///< generated, without the end token
  bool ended = false;
};

/// Completes `prompt`, of one token or more. A prompt longer than the context is truncated at the
/// start; a text that outgrows the context continues from its second half. Tokens depend on the
/// weights, the prompt and the request alone. Model and libtorch's generators stay unchanged.
/// Throws DivergedError.
GeneratedTokens generate_tokens(LanguageModel& model, std::vector<int64_t> prompt,
                                const GenerationRequest& request);

/// Samples the index of the next token. Ties go to the lower index. Takes one number of `rng`, none
/// at temperature 0. Throws DivergedError for a NaN logit or when all are -inf.
int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, SampleRng& rng);

/// Immutable; several threads may use one.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  /// The ids of a prompt, without end token. Throws Error (kRecipe) when the model has no token for
  /// a character.
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Valid UTF-8.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  /// Tokens that end a text.
  virtual std::set<int64_t> ends() const { return {}; }
  /// The tokens of an empty prompt; empty without a start token.
  virtual std::vector<int64_t> beginning() const { return {}; }
};

/// The codec of a recipe's training data: its tokenizer, or characters or bytes. Null for data
/// without text or with tokens of an unknown tokenizer. Throws DataError for an unreadable
/// tokenizer.
std::unique_ptr<TextCodec> codec_of_data(const Node& recipe, const DataShape& data);

/// The codec of a tokenizer.json, or of a folder with one; it adds the start tokens if
/// `with_special`. Throws DataError.
std::unique_ptr<TextCodec> codec_of_tokenizer(const std::string& path, bool with_special);

class ModelTexts final : public TextGenerator {
 public:
  /// `window`: tokens per training sample; 0: unknown. `ends`: end tokens besides the codec's.
  /// `staged`: see GenerationRequest. The model outlives this.
  ModelTexts(LanguageModel& model, std::unique_ptr<TextCodec> codec, int64_t window,
             std::set<int64_t> ends = {}, StagedForward staged = {});

  void check_prompt(const std::string& prompt) const override { tokens_of(prompt); }
  GeneratedText generate(const std::string& prompt, const SamplingOptions& options,
                         uint64_t stream) override;

 private:
  std::vector<int64_t> tokens_of(const std::string& prompt) const;

  LanguageModel& model_;
  std::unique_ptr<TextCodec> codec_;
  int64_t window_;
  std::set<int64_t> ends_;
  StagedForward staged_;
};

/// Null for a model that is no language model, or data without text. `staged`: see
/// GenerationRequest. Throws DataError.
std::unique_ptr<TextGenerator> texts_of(Model& model, const Node& recipe, const DataShape& data,
                                        const StagedForward& staged);

}  // namespace accel
