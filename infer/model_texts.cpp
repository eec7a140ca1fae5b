#include "infer/model_texts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "infer/text_stream.h"
#include "models/layers/token_logits.h"

namespace accel {
namespace {

/// Whether the last token of a sequence completes one of `stops`.
bool ends_with_stop(const TextCodec& codec, const std::vector<std::string>& stops,
                    std::span<const int64_t> tokens) {
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  // A token has one byte or more, but special ones; one more is context of the first.
  const std::span<const int64_t> last = tokens.last(std::min(tokens.size(), longest + 1));
  const std::string text = codec.decode(last);
  const std::string earlier = codec.decode(last.first(last.size() - 1));
  // Not all of it: it may end with a part of a character, as U+FFFD.
  const auto changed =
      std::mismatch(text.begin(), text.end(), earlier.begin(), earlier.end()).first;
  const auto before = static_cast<size_t>(changed - text.begin());
  for (const std::string& stop : stops) {
    const size_t at = text.rfind(stop);
    if (at != text.npos && at + stop.size() > before) return true;
  }
  return false;
}

}  // namespace

GenerationConfig generation_config_of(const SamplingOptions& options) {
  GenerationConfig config;
  config.do_sample = options.temperature > 0;
  config.temperature = options.temperature;
  config.top_k = options.top_k;
  config.top_p = options.top_p;
  config.max_new_tokens = options.max_new_tokens;
  return config;
}

ModelTexts::ModelTexts(Model& model, std::unique_ptr<TextCodec> codec, int64_t window,
                       std::set<int64_t> ends, StagedForward staged)
    : model_(model),
      language_(dynamic_cast<LanguageModel*>(&model)),
      encoder_decoder_(dynamic_cast<EncoderDecoder*>(&model)),
      codec_(std::move(codec)),
      window_(window),
      ends_(std::move(ends)),
      staged_(std::move(staged)) {
  ends_.merge(codec_->ends());
}

std::vector<int64_t> ModelTexts::tokens_of(const std::string& prompt) const {
  std::vector<int64_t> tokens = codec_->encode(prompt);
  if (tokens.empty()) tokens = codec_->beginning();
  if (!tokens.empty()) return tokens;
  throw Error(ExitCode::kRecipe, "the prompt is empty, and the model has no start token",
              "give at least one character");
}

GeneratedText ModelTexts::generate(const std::string& prompt, const SamplingOptions& options,
                                   uint64_t stream) {
  GeneratedText out;
  GenerationRequest request{
      .config = generation_config_of(options), .seed = options.seed, .first_stream = stream};
  generate(std::vector<std::string>{prompt}, std::move(request),
           {.done = [&](size_t, Completion&& completion) {
             out = {std::move(completion.text), static_cast<int64_t>(completion.tokens.size()),
                    completion.end == GenerationEnd::kToken};
           }});
  return out;
}

void ModelTexts::generate(const std::vector<std::string>& prompts, GenerationRequest request,
                          const TextReceiver& to) const {
  std::vector<std::vector<int64_t>> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(tokens_of(prompt));
  generate(tokens, std::move(request), to);
}

void ModelTexts::check_tokens(const std::vector<std::vector<int64_t>>& prompts) const {
  if (staged_) return;  // the ranks of other stages have no vocabulary
  const auto* divided = dynamic_cast<const TensorParallel*>(&model_);
  const DividedVocabulary vocabulary = divided ? divided->vocabulary() : DividedVocabulary();
  const auto rows = [this] {
    return language_ ? head_rows(*language_) : encoder_decoder_->head_weight().size(0);
  };
  const int64_t size = vocabulary.ranks ? vocabulary.size : rows();
  for (const auto& prompt : prompts) {
    const auto beyond =
        std::find_if(prompt.begin(), prompt.end(), [size](int64_t token) { return token >= size; });
    if (beyond == prompt.end()) continue;
    throw Error(ExitCode::kRecipe,
                text("the tokenizer encodes the prompt with token {}, and the model has {} tokens",
                     *beyond, size),
                "name the tokenizer of this model with --tokenizer");
  }
}

void ModelTexts::generate(const std::vector<std::vector<int64_t>>& prompts,
                          GenerationRequest request, const TextReceiver& to) const {
  check_tokens(prompts);
  request.window = window_;
  request.staged = staged_;
  add_ends(request.config);
  const std::vector<std::string>& stops = request.config.stop_strings;
  if (!stops.empty()) {
    request.is_stopped = [this, &stops](std::span<const int64_t> tokens) {
      return ends_with_stop(*codec_, stops, tokens);
    };
  }
  std::vector<TextStream> streams;
  for (const auto& prompt : prompts) {
    streams.emplace_back(*codec_, language_ ? prompt : std::vector<int64_t>());
  }
  std::vector<std::string> texts(prompts.size());
  const auto write = [&](size_t i, const std::string& piece) {
    if (piece.empty()) return;
    texts[i] += piece;
    if (to.piece) to.piece(i, piece);
  };
  const bool has_beams = request.config.num_beams > 1;
  request.on_token = [&](size_t i, int64_t token) { write(i, streams[i].add(token)); };
  generate_all(prompts, request, [&](size_t i, GeneratedTokens completion) {
    for (size_t k = 0; has_beams && k < completion.tokens.size(); ++k) {
      write(i, streams[i].add(completion.tokens[k]));
    }
    write(i, streams[i].finish());
    to.done(i, {std::move(texts[i]), std::move(completion.tokens), completion.end,
                completion.end_token});
  });
}

void ModelTexts::generate_all(const std::vector<std::vector<int64_t>>& prompts,
                              const GenerationRequest& request,
                              const std::function<void(size_t, GeneratedTokens)>& done) const {
  if (language_) return generate_tokens(*language_, prompts, request, done);
  generate_targets(*encoder_decoder_, prompts, request, done);
}

std::vector<SampledCompletion> ModelTexts::sample(std::span<const SampledPrompt> prompts,
                                                  const CompletionOptions& options) {
  GenerationRequest request{.config = generation_config_of(options),
                            .seed = options.seed,
                            .batch_size = static_cast<int64_t>(prompts.size())};
  request.config.min_p = options.min_p;
  request.config.repetition_penalty = options.repetition_penalty;
  request.config.num_beams = options.num_beams;
  std::vector<std::vector<int64_t>> tokens;
  for (const SampledPrompt& prompt : prompts) {
    tokens.push_back(prompt.tokens);
    request.streams.push_back(prompt.stream);
  }
  std::vector<SampledCompletion> out(prompts.size());
  generate(tokens, std::move(request), {.done = [&](size_t i, Completion&& completion) {
             out[i] = {std::move(completion.tokens), std::move(completion.text),
                       completion.end == GenerationEnd::kToken};
             if (completion.end_token >= 0) out[i].tokens.push_back(completion.end_token);
           }});
  return out;
}

bool ModelTexts::is_cached() const {
  return encoder_decoder_ || dynamic_cast<const CachedDecoder*>(&model_) != nullptr;
}

void ModelTexts::add_ends(GenerationConfig& config) const {
  if (config.eos_token_id.empty()) config.eos_token_id = ends_;
}

int64_t ModelTexts::context() const {
  const auto* decoder = dynamic_cast<const CachedDecoder*>(&model_);
  if (decoder) return decoder->longest();
  return language_ ? window_ : 0;
}

bool generates_texts(const Model& model) {
  return dynamic_cast<const LanguageModel*>(&model) || dynamic_cast<const EncoderDecoder*>(&model);
}

std::unique_ptr<ModelTexts> texts_of(Model& model, const Node& recipe, const DataShape& data,
                                     const StagedForward& staged) {
  if (!generates_texts(model)) return nullptr;
  std::unique_ptr<TextCodec> codec = codec_of_data(recipe, data);
  if (!codec) return nullptr;
  const int64_t window = data.input.empty() ? 0 : data.input.front();
  return std::make_unique<ModelTexts>(model, std::move(codec), window, std::set<int64_t>(), staged);
}

}  // namespace accel
