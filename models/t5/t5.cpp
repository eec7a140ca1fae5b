// T5 (Raffel et al. 2020, arXiv:1910.10683), T5 v1.1, FLAN-T5 and mT5 (arXiv:2010.11934): an
// encoder-decoder for the task seq2seq. Parameter names are Hugging Face's.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/minimum.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/api/encoder_decoder.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/input_spec.h"
#include "models/layers/packed_pairs.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"
#include "models/t5/t5_options.h"
#include "models/t5/t5_stack.h"

namespace accel {
namespace {

constexpr auto kT5 = "t5";

/// Encoder, decoder and head, with initial weights.
class T5Net final : public torch::nn::Module {
 public:
  T5Net(int64_t vocab, const T5Options& options, const TensorRanksPtr& ranks)
      : ranks_(ranks),
        vocab_(vocab),
        is_tied_(options.tie_embeddings),
        scale_(options.scales_outputs() ? 1 / std::sqrt(static_cast<double>(options.hidden_size))
                                        : 1) {
    const int64_t width = options.hidden_size;
    const torch::NoGradGuard no_grad;
    shared_ = register_module("shared", AdaptedEmbedding(vocab, width));
    torch::nn::init::normal_(shared_->weight, 0.0, options.initializer_factor);
    encoder_ = register_module("encoder", std::make_shared<T5Stack>(options, false, ranks));
    decoder_ = register_module("decoder", std::make_shared<T5Stack>(options, true, ranks));
    if (is_tied_) {
      tied_head_ = register_module("lm_head", TiedHead(width, vocab));
      return;
    }
    head_ = register_module("lm_head",
                            AdaptedLinear(torch::nn::LinearOptions(width, vocab).bias(false)));
    torch::nn::init::normal_(head_->weight, 0.0, options.initializer_factor);
  }

  /// Sources [batch, length] to [batch, length, hidden_size].
  at::Tensor encode(const at::Tensor& tokens, const at::Tensor& visible) {
    return encoder_->encode(embedded(tokens), visible);
  }
  /// The input of the head for targets [batch, length] that begin with the start token.
  at::Tensor decode(const at::Tensor& tokens, const at::Tensor& source, const T5Visible& visible) {
    return head_input(decoder_->decode(embedded(tokens), source, visible));
  }
  /// Of the next tokens of targets.
  at::Tensor decode_next(const at::Tensor& tokens, KeyValueCache& seen, SourceCache& known,
                         const T5Source& source) {
    return head_input(
        decoder_->decode_next(embedded(tokens), seen.positions(tokens), seen, known, source));
  }
  DividedVocabulary vocabulary() const { return {ranks_.get(), vocab_}; }
  bool adapts_tied_head() const { return tied_head_ && tied_head_->is_adapted(); }
  at::Tensor head_weight() {
    return adapter().widened_weight(head_ ? head_->weight : shared_->weight);
  }

 private:
  at::Tensor embedded(const at::Tensor& tokens) {
    return shared_->adapted(vocabulary_embedding(vocabulary(), shared_->weight, tokens, is_tied_),
                            tokens);
  }
  at::Tensor head_input(const at::Tensor& hidden) {
    const at::Tensor scaled = scale_ == 1 ? hidden : hidden.mul(scale_);
    return adapter().widened_inputs(enter(ranks_, scaled));
  }
  HeadAdapter adapter() const { return head_ ? head_->head_adapter() : tied_head_->head_adapter(); }

  TensorRanksPtr ranks_;
  int64_t vocab_;
  bool is_tied_;
  double scale_;
  AdaptedEmbedding shared_{nullptr};
  std::shared_ptr<T5Stack> encoder_, decoder_;
  AdaptedLinear head_{nullptr};
  TiedHead tied_head_{nullptr};  ///< instead of head_
};

/// bool [batch, length], false for padding; undefined without padding.
at::Tensor visible_in(const Batch& batch) {
  if (!batch.lengths.defined()) return {};
  return at::arange(batch.inputs.size(1), batch.inputs.options())
      .unsqueeze(0)
      .lt(batch.lengths.unsqueeze(1));
}

/// The number of each target token's pair in a packed row, [batch, target length]. Padding counts
/// to the last pair, so that it sees a source.
at::Tensor pairs_of_targets(const Batch& batch) {
  const at::Tensor ends = batch.targets.eq(kIgnoredTarget).to(at::kLong);
  const at::Tensor last = std::get<0>(batch.segments.max(1, /*keepdim=*/true));
  return at::minimum(ends.cumsum(1).sub(ends).add(1), last);
}

at::Tensor in_one_pair(const at::Tensor& tokens, const at::Tensor& keys) {
  return tokens.unsqueeze(2).eq(keys.unsqueeze(1));
}

/// The decoder of sources, of a model that outlives it.
class T5Decoder final : public LanguageModel,
                        public CachedDecoder,
                        public DecodesSources,
                        public TensorParallel {
 public:
  T5Decoder(const TensorParallel& model, std::shared_ptr<T5Net> net,
            std::vector<at::Tensor> sources)
      : model_(model), net_(std::move(net)), sources_(std::move(sources)) {}

  at::Tensor forward(const at::Tensor& tokens) override {
    return vocabulary_logits(vocabulary(), hidden(tokens), head_weight());
  }
  TensorPlan tensor_plan(int64_t ranks) const override { return model_.tensor_plan(ranks); }
  DividedVocabulary vocabulary() const override { return net_->vocabulary(); }
  at::Tensor hidden(const at::Tensor& tokens) override {
    return net_->decode(tokens, encoded(rows_.front()).hidden, {});
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    if (rows_.size() > 1) return net_->decode_next(tokens, cache, joined_, {{}, joined_bias_});
    Encoded& source = encoded(rows_.front());
    return net_->decode_next(tokens, cache, source.known, {source.hidden});
  }
  at::Tensor head_weight() override { return net_->head_weight(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "seq2seq"; }
  int64_t longest() const override { return 0; }
  bool supports_ragged_rows() const override { return true; }

  void select_sources(std::span<const int64_t> sources) override {
    if (std::equal(sources.begin(), sources.end(), rows_.begin(), rows_.end())) return;
    rows_.assign(sources.begin(), sources.end());
    if (rows_.size() > 1) join();
  }
  void forget_source(int64_t source) override { encoded_.erase(source); }

 private:
  struct Encoded {
    at::Tensor hidden;  ///< [1, length, hidden_size]
    SourceCache known = {};
  };

  Encoded& encoded(int64_t source) {
    const auto found = encoded_.find(source);
    if (found != encoded_.end()) return found->second;
    const at::Tensor tokens = sources_[static_cast<size_t>(source)].unsqueeze(0);
    return encoded_.emplace(source, Encoded{net_->encode(tokens, {})}).first->second;
  }

  /// The keys and values of all rows' sources, which single passes have computed, with padding.
  void join() {
    std::vector<int64_t> lengths;
    for (const int64_t row : rows_) lengths.push_back(encoded(row).hidden.size(1));
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const auto padded = [&](at::Tensor SourceKeys::*part, size_t layer) {
      std::vector<at::Tensor> all;
      for (const int64_t row : rows_) {
        const at::Tensor& own = encoded(row).known.at(layer).*part;
        all.push_back(at::constant_pad_nd(own, {0, 0, 0, longest - own.size(2)}));
      }
      return at::cat(all);
    };
    joined_.resize(encoded(rows_.front()).known.size());
    for (size_t i = 0; i < joined_.size(); ++i) {
      joined_[i] = {padded(&SourceKeys::key, i), padded(&SourceKeys::value, i)};
    }
    joined_bias_ = bias_of_lengths(lengths, joined_.front().key.device());
  }

  const TensorParallel& model_;
  std::shared_ptr<T5Net> net_;
  std::vector<at::Tensor> sources_;  ///< int64 [length]
  std::map<int64_t, Encoded> encoded_;
  std::vector<int64_t> rows_ = {0};
  SourceCache joined_;  ///< of several rows
  at::Tensor joined_bias_;
};

class T5 final : public EncoderDecoder,
                 public EncodesSources,
                 public PacksPairs,
                 public TensorParallel,
                 public InputSpec {
 public:
  static constexpr auto kName = kT5;
  static constexpr auto kSummary =
      "A T5, FLAN-T5 or mT5 encoder-decoder, which maps a source text to a target text.";
  static constexpr bool kGenerates = true;
  static constexpr bool kIsEncoderDecoder = true;

  static Schema<T5Options> schema() { return T5Options::schema(); }
  static bool reads(const std::string& model_type) { return T5Options::reads(model_type); }
  static T5Options from_config(HfConfig& config) { return T5Options::from_config(config); }
  static void to_config(const T5Options& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    options.to_config(shapes, config);
  }
  static HfNames names(const T5Options& options) { return options.names(); }

  T5(const T5Options& options, const ModelContext& context)
      : options_(options), start_(options.decoder_start_token_id) {
    const DataShape& data = context.data;
    require_tokens(kT5, data);
    const int64_t vocab = sufficient_size({kT5, "vocab_size", options.vocab_size, data.vocab});
    if (start_ >= vocab) {
      throw Error(
          ExitCode::kRecipe,
          text("'decoder_start_token_id' is {}, and the model has {} tokens", start_, vocab),
          "name the padding token of the tokenizer");
    }
    net_ = std::make_shared<T5Net>(vocab, options, context.tensor);
  }

  at::Tensor forward_batch(const Batch& batch) override {
    return vocabulary_logits(vocabulary(), hidden(batch), head_weight());
  }
  at::Tensor hidden(const Batch& batch) override {
    const at::Tensor inputs = decoder_inputs(batch);
    if (batch.segments.defined()) return packed_hidden(batch, inputs);
    const at::Tensor visible = visible_in(batch);
    return net_->decode(inputs, net_->encode(batch.inputs, visible), {visible});
  }
  at::Tensor head_weight() override { return net_->head_weight(); }
  TensorPlan tensor_plan(int64_t ranks) const override {
    TensorPlan plan = t5_tensor_plan(options_, ranks);
    if (net_->adapts_tied_head()) plan.push_back({"lm_head", TensorStyle::kColwise});
    return plan;
  }
  DividedVocabulary vocabulary() const override { return net_->vocabulary(); }
  int64_t start_token() const override { return start_; }
  std::unique_ptr<LanguageModel> decoder_of(const at::Tensor& source) override {
    return decoder_of_sources({source});
  }
  std::unique_ptr<LanguageModel> decoder_of_sources(std::vector<at::Tensor> sources) override {
    return std::make_unique<T5Decoder>(*this, net_, std::move(sources));
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "seq2seq"; }
  void validate_input(const DataShape&) const override {}
  TextOutput text_output() const override { return TextOutput::kTargetSequence; }

 private:
  /// hidden() with block-diagonal masks. Relative positions are those of each pair alone.
  at::Tensor packed_hidden(const Batch& batch, const at::Tensor& inputs) {
    const at::Tensor& sources = batch.segments;
    const at::Tensor targets = pairs_of_targets(batch);
    const at::Tensor source = net_->encode(batch.inputs, in_one_pair(sources, sources));
    return net_->decode(inputs, source,
                        {in_one_pair(targets, sources), in_one_pair(targets, targets)});
  }

  /// The start token and all targets but the last, of each pair of a packed row. Padding has any
  /// token: no target follows it.
  at::Tensor decoder_inputs(const Batch& batch) const {
    const at::Tensor& targets = batch.targets;
    if (!targets.defined() || targets.dim() != 2 || targets.scalar_type() != at::kLong) {
      throw Error(ExitCode::kRecipe,
                  text("the model '{}' needs a target sequence for each source, but the targets "
                       "are {}",
                       kT5, targets.defined() ? shape_text(targets) : "none"),
                  "use data of type 'text_to_text'");
    }
    at::Tensor shifted = targets.roll(1, 1);
    if (batch.segments.defined()) shifted.masked_fill_(shifted.eq(kIgnoredTarget), start_);
    shifted.clamp_min_(0).select(1, 0).fill_(start_);
    return shifted;
  }

  T5Options options_;
  int64_t start_;
  std::shared_ptr<T5Net> net_;
};

const RegisterPretrained<T5> t5;

}  // namespace
}  // namespace accel
