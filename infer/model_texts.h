// Text generation: a language model or an encoder-decoder with the codec of its training data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/api/completion_sampler.h"
#include "core/api/data_shape.h"
#include "core/api/model.h"
#include "core/api/text_generator.h"
#include "core/recipe/node.h"
#include "infer/generate.h"
#include "infer/text_codec.h"
#include "train/job/staged_forward.h"

namespace accel {

/// The config of `options`: temperature 0 is greedy decoding.
GenerationConfig generation_config_of(const SamplingOptions& options);

/// The continuation of one prompt, or the target of one source, which are prompts here too.
struct Completion {
  std::string text;  ///< without the prompt
  std::vector<int64_t> tokens;
  GenerationEnd end = GenerationEnd::kLength;
  int64_t end_token = -1;  ///< see GeneratedTokens
};

/// Receives texts of prompt i.
struct TextReceiver {
  /// Each piece as soon as its tokens are known; null: none. Its pieces are `Completion::text`. In
  /// beam search there is one piece.
  std::function<void(size_t i, const std::string& piece)> piece = {};
  std::function<void(size_t i, Completion&& completion)> done;
};

class ModelTexts final : public TextGenerator, public CompletionSampler {
 public:
  /// `model`: one that generates_texts(). `window`: tokens per training sample; 0: unknown. `ends`:
  /// end tokens besides the codec's. `staged`: see GenerationRequest. The model outlives this.
  ModelTexts(Model& model, std::unique_ptr<TextCodec> codec, int64_t window,
             std::set<int64_t> ends = {}, StagedForward staged = {});

  void check_prompt(const std::string& prompt) const override { tokens_of(prompt); }
  bool continues_prompts() const override { return language_ != nullptr; }
  GeneratedText generate(const std::string& prompt, const SamplingOptions& options,
                         uint64_t stream) override;

  std::vector<SampledCompletion> sample(std::span<const SampledPrompt> prompts,
                                        const CompletionOptions& options) override;
  std::string text_of(std::span<const int64_t> tokens) const override {
    return codec_->decode(tokens);
  }
  int64_t max_context() const override { return context(); }
  bool is_cached() const override;
  bool has_end_token() const override { return !ends_.empty(); }

  /// Continues prompts by `request`, whose window, stages, end tokens and stop strings are set
  /// here. Throws Error (kRecipe) before the first token for a prompt without tokens, and
  /// DivergedError.
  void generate(const std::vector<std::string>& prompts, GenerationRequest request,
                const TextReceiver& to) const;
  /// Of prompts in tokens.
  void generate(const std::vector<std::vector<int64_t>>& prompts, GenerationRequest request,
                const TextReceiver& to) const;
  /// Adds the tokenizer's end tokens to a config without any.
  void add_ends(GenerationConfig& config) const;
  /// Tokens that the model sees at most; 0: unlimited.
  int64_t context() const;

 private:
  std::vector<int64_t> tokens_of(const std::string& prompt) const;
  /// Throws Error (kRecipe) for a token beyond the model's vocabulary.
  void check_tokens(const std::vector<std::vector<int64_t>>& prompts) const;

  void generate_all(const std::vector<std::vector<int64_t>>& prompts,
                    const GenerationRequest& request,
                    const std::function<void(size_t, GeneratedTokens)>& done) const;

  Model& model_;
  LanguageModel* language_;          ///< null: `encoder_decoder_`
  EncoderDecoder* encoder_decoder_;  ///< null: `language_`
  std::unique_ptr<TextCodec> codec_;
  int64_t window_;
  std::set<int64_t> ends_;
  StagedForward staged_;
};

/// Whether it is a language model or an encoder-decoder.
bool generates_texts(const Model& model);

/// Null for a model that does not, or data without text. `staged`: see
/// GenerationRequest. Throws DataError.
std::unique_ptr<ModelTexts> texts_of(Model& model, const Node& recipe, const DataShape& data,
                                     const StagedForward& staged);

}  // namespace accel
