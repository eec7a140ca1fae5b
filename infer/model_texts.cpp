#include "infer/model_texts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "models/layers/decoding.h"
#include "models/layers/tensor_parallel.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace accel {
namespace {

/// Puts the model into eval mode.
class EvalScope {
 public:
  explicit EvalScope(torch::nn::Module& module) : module_(module), was_(module.is_training()) {
    if (was_) module_.eval();
  }
  ~EvalScope() {
    if (was_) module_.train();
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_;
};

/// Decoding state of a text, with the KV cache if the model has one.
class TokenTape {
 public:
  TokenTape(LanguageModel& model, std::vector<int64_t> tokens, const GenerationRequest& request)
      : model_(model),
        staged_(request.staged),
        decoder_(dynamic_cast<CachedDecoder*>(&model)),
        tokens_(std::move(tokens)),
        window_(decoder_ ? decoder_->longest() : request.window) {
    keep(window_);
  }

  void add(int64_t token) {
    tokens_.push_back(token);
    if (window_ > 0 && static_cast<int64_t>(tokens_.size()) > window_) {
      keep(std::max<int64_t>(1, window_ / 2));
      caches_.clear();
      seen_ = 0;
    }
  }

  /// The logits of the next token, [vocab] in float32.
  at::Tensor logits() {
    const auto fresh = decoder_ ? static_cast<ptrdiff_t>(seen_) : 0;
    const at::Tensor tokens =
        at::tensor(at::ArrayRef<int64_t>(&tokens_[static_cast<size_t>(fresh)],
                                         tokens_.size() - static_cast<size_t>(fresh)))
            .unsqueeze(0)
            .to(model_.head_weight().device());
    seen_ = tokens_.size();
    const auto compute = [&](size_t stage) { return logits_of(tokens, stage); };
    const at::Tensor all = staged_ ? staged_(tokens, compute) : compute(0);
    return all.to(at::kCPU, at::kFloat).contiguous();
  }

 private:
  /// [vocab], on the last stage: see StageForward.
  at::Tensor logits_of(const at::Tensor& tokens, size_t stage) {
    if (stage >= caches_.size()) caches_.resize(stage + 1);
    const at::Tensor hidden =
        decoder_ ? decoder_->hidden_next(tokens, caches_[stage]) : model_.hidden(tokens);
    const at::Tensor last = hidden.select(1, hidden.size(1) - 1);
    const auto* divided = dynamic_cast<const TensorParallel*>(&model_);
    const DividedVocabulary vocabulary = divided ? divided->vocabulary() : DividedVocabulary();
    return vocabulary_logits(vocabulary, last, model_.head_weight()).flatten();
  }

  /// Drops all but the newest tokens.
  void keep(int64_t count) {
    const auto size = static_cast<int64_t>(tokens_.size());
    if (count > 0 && size > count) tokens_.erase(tokens_.begin(), tokens_.end() - count);
  }

  LanguageModel& model_;
  const StagedForward& staged_;
  CachedDecoder* decoder_;  // null: a model without KV cache
  std::vector<int64_t> tokens_;
  int64_t window_;
  std::vector<KeyValueCache> caches_;  // of the stages on this rank
  size_t seen_ = 0;                    // tokens in the caches
};

void check_logits(std::span<const float> logits) {
  bool any = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == HUGE_VALF) {
      throw DivergedError("the model's logits are not finite",
                          "use a checkpoint from before the divergence");
    }
    any = any || std::isfinite(logit);
  }
  if (!any) throw DivergedError("the model gives every token probability 0");
}

/// The candidate tokens, the likeliest first if top_k or top_p need it.
std::vector<int64_t> candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto likelier = [&](int64_t a, int64_t b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t kept = options.top_k > 0 ? std::min(options.top_k, count) : count;
  if (kept < count || options.top_p < 1) {
    std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), likelier);
  }
  tokens.resize(static_cast<size_t>(kept));
  return tokens;
}

/// Number of tokens of the sorted `chances` that reach `share` of their sum (top-p).
size_t nucleus(const std::vector<double>& chances, double share) {
  const double wanted = share * std::accumulate(chances.begin(), chances.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < chances.size(); ++i) {
    sum += chances[i];
    if (sum >= wanted) return i + 1;
  }
  return chances.size();
}

constexpr int64_t kBytes = 256;

class ByteCodec final : public TextCodec {
 public:
  std::vector<int64_t> encode(const std::string& text) const override {
    std::vector<int64_t> ids;
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string bytes;
    for (const int64_t id : ids) {
      if (id >= 0 && id < kBytes) bytes += static_cast<char>(id);
    }
    return lossy_utf8(bytes);
  }
};

class CharacterCodec final : public TextCodec {
 public:
  explicit CharacterCodec(std::vector<std::string> names) : names_(std::move(names)) {
    for (size_t i = 0; i < names_.size(); ++i) ids_[names_[i]] = static_cast<int64_t>(i);
  }

  std::vector<int64_t> encode(const std::string& text) const override {
    const std::string valid = lossy_utf8(text);
    std::vector<int64_t> ids;
    for (size_t at = 0; at < valid.size();) {
      const std::string name = valid.substr(at, character_at(valid, at).bytes);
      const auto found = ids_.find(name);
      if (found == ids_.end()) {
        throw Error(ExitCode::kRecipe,
                    accel::text("the model has no token for the character {}", json_text(name)),
                    accel::text("its vocabulary has the {} characters of its training text",
                                names_.size()));
      }
      ids.push_back(found->second);
      at += name.size();
    }
    return ids;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) {
      if (id >= 0 && id < static_cast<int64_t>(names_.size())) {
        text += names_[static_cast<size_t>(id)];
      }
    }
    return text;
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t> ids_;
};

class TokenizerCodec final : public TextCodec {
 public:
  TokenizerCodec(const std::string& path, bool with_special)
      : tokenizer_(load_tokenizer(path)), with_special_(with_special) {}

  std::vector<int64_t> encode(const std::string& text) const override {
    const std::vector<int32_t> ids = tokenizer_->encode(text, with_special_);
    std::vector<int64_t> out(ids.begin(), ids.end());
    const SpecialTokens& special = tokenizer_->special();
    // A prompt gets no end token, unlike complete texts.
    while (with_special_ && out.size() > 1 &&
           (out.back() == special.eos || out.back() == special.sep)) {
      out.pop_back();
    }
    return out;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    const std::vector<int32_t> narrow(ids.begin(), ids.end());
    return tokenizer_->decode(narrow);
  }

  std::set<int64_t> ends() const override {
    const std::optional<int32_t> end = tokenizer_->special().eos;
    return end ? std::set<int64_t>{*end} : std::set<int64_t>{};
  }

  std::vector<int64_t> beginning() const override {
    const SpecialTokens& special = tokenizer_->special();
    const std::optional<int32_t> first = special.bos ? special.bos : special.eos;
    return first ? std::vector<int64_t>{*first} : std::vector<int64_t>{};
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool with_special_;
};

const std::string* text_at(const Node& dataset, const char* key) {
  const Node::Entry* entry = dataset.find(key);
  const Scalar* scalar = entry ? entry->node.scalar() : nullptr;
  return scalar && !scalar->text.empty() ? &scalar->text : nullptr;
}

/// The first dataset of the training data, or null.
const Node* first_dataset(const Node& recipe) {
  const Node::Entry* data = recipe.find("data");
  const Node::Entry* train = data ? data->node.find("train") : nullptr;
  if (!train) return nullptr;
  const Node::List* parts = train->node.list();
  if (!parts) return &train->node;
  return parts->empty() ? nullptr : &parts->front();
}

}  // namespace

GeneratedTokens generate_tokens(LanguageModel& model, std::vector<int64_t> prompt,
                                const GenerationRequest& request) {
  const at::NoGradGuard no_grad;
  const EvalScope no_dropout(model.module());
  TokenTape tape(model, std::move(prompt), request);
  SampleRng rng(static_cast<uint64_t>(request.sampling.seed), request.stream, 0);
  GeneratedTokens out;
  for (int64_t i = 0; i < request.sampling.max_new_tokens; ++i) {
    const at::Tensor logits = tape.logits();
    const std::span<const float> values(logits.const_data_ptr<float>(),
                                        static_cast<size_t>(logits.numel()));
    const int64_t token = choose_token(values, request.sampling, rng);
    out.ended = request.ends.contains(token);
    if (out.ended) break;
    out.tokens.push_back(token);
    tape.add(token);
  }
  return out;
}

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options,
                     SampleRng& rng) {
  check_logits(logits);
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return largest - logits.begin();
  const std::vector<int64_t> tokens = candidates(logits, options);
  std::vector<double> chances;
  for (const int64_t token : tokens) {
    const double below = static_cast<double>(logits[static_cast<size_t>(token)]) - *largest;
    chances.push_back(std::exp(below / options.temperature));
  }
  if (options.top_p < 1) chances.resize(nucleus(chances, options.top_p));
  const double drawn = rng.uniform() * std::accumulate(chances.begin(), chances.end(), 0.0);
  double sum = 0;
  size_t last = 0;  // with nonzero probability: rounding must not select beyond it
  for (size_t i = 0; i < chances.size(); ++i) {
    sum += chances[i];
    if (chances[i] > 0) last = i;
    if (drawn < sum) return tokens[i];
  }
  return tokens[last];
}

std::unique_ptr<TextCodec> codec_of_data(const Node& recipe, const DataShape& data) {
  const Node* dataset = first_dataset(recipe);
  if (!dataset || data.vocab == 0) return nullptr;
  const std::string* type = text_at(*dataset, "type");
  const bool one_text = type && *type == "text";
  if (const std::string* tokenizer = text_at(*dataset, "tokenizer")) {
    return codec_of_tokenizer(*tokenizer, !one_text);  // one long text has no special tokens
  }
  if (!one_text) return nullptr;
  if (data.labels.empty()) return std::make_unique<ByteCodec>();
  return std::make_unique<CharacterCodec>(data.labels);
}

std::unique_ptr<TextCodec> codec_of_tokenizer(const std::string& path, bool with_special) {
  return std::make_unique<TokenizerCodec>(path, with_special);
}

ModelTexts::ModelTexts(LanguageModel& model, std::unique_ptr<TextCodec> codec, int64_t window,
                       std::set<int64_t> ends, StagedForward staged)
    : model_(model),
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
  std::vector<int64_t> tokens = tokens_of(prompt);
  const GeneratedTokens made =
      generate_tokens(model_, tokens, {options, stream, ends_, window_, staged_});
  const std::string before = codec_->decode(tokens);
  tokens.insert(tokens.end(), made.tokens.begin(), made.tokens.end());
  const std::string all = codec_->decode(tokens);
  // A tokenizer may decode a token differently at the start of a text, so both are decoded from
  // there.
  const bool follows = all.starts_with(before);
  return {follows ? all.substr(before.size()) : codec_->decode(made.tokens),
          static_cast<int64_t>(made.tokens.size()), made.ended};
}

std::unique_ptr<TextGenerator> texts_of(Model& model, const Node& recipe, const DataShape& data,
                                        const StagedForward& staged) {
  auto* language = dynamic_cast<LanguageModel*>(&model);
  if (!language) return nullptr;
  std::unique_ptr<TextCodec> codec = codec_of_data(recipe, data);
  if (!codec) return nullptr;
  const int64_t window = data.input.empty() ? 0 : data.input.front();
  return std::make_unique<ModelTexts>(*language, std::move(codec), window, std::set<int64_t>(),
                                      staged);
}

}  // namespace accel
