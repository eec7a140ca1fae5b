#include "runner/job/model_texts.h"

#include "core/error.h"
#include "models/generation.h"

namespace accel {

ModelTexts::ModelTexts(LanguageModel& model, std::unique_ptr<TextCodec> codec, int64_t window,
                       std::set<int64_t> ends)
    : model_(model), codec_(std::move(codec)), window_(window), ends_(std::move(ends)) {
  ends_.merge(codec_->ends());
}

GeneratedText ModelTexts::generate(const std::string& prompt, const SamplingOptions& options,
                                   uint64_t stream) {
  std::vector<int64_t> tokens = codec_->encode(prompt);
  if (tokens.empty()) tokens = codec_->beginning();
  if (tokens.empty()) {
    throw Error(ExitCode::kRecipe, "an empty prompt gives the model nothing to go on from",
                "give it at least one character");
  }
  const GeneratedTokens made = generate_tokens(model_, tokens, {options, stream, ends_, window_});
  const std::string before = codec_->decode(tokens);
  tokens.insert(tokens.end(), made.tokens.begin(), made.tokens.end());
  const std::string all = codec_->decode(tokens);
  // A tokenizer may write a token otherwise where a text begins, so both are decoded from there.
  const bool follows = all.starts_with(before);
  return {follows ? all.substr(before.size()) : codec_->decode(made.tokens),
          static_cast<int64_t>(made.tokens.size()), made.ended};
}

std::unique_ptr<TextGenerator> texts_of(Model& model, const Node& recipe, const DataShape& data) {
  auto* language = dynamic_cast<LanguageModel*>(&model);
  if (!language) return nullptr;
  std::unique_ptr<TextCodec> codec = codec_of_data(recipe, data);
  if (!codec) return nullptr;
  const int64_t window = data.input.empty() ? 0 : data.input.front();
  return std::make_unique<ModelTexts>(*language, std::move(codec), window);
}

}  // namespace accel
