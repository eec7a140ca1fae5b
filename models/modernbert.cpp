// ModernBERT (Warner et al. 2024, arXiv:2412.13663): an encoder with rotary positions, gated MLPs,
// norms before the layers, and windows of attention in most layers. Parameter names are Hugging
// Face's.
#include <ATen/ops/arange.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>

#include <cmath>

#include "core/api/packed_sequences.h"
#include "core/api/token_head.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/attention_scores.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/packed_texts.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"
#include "models/llama_mlp.h"
#include "models/modernbert_options.h"

namespace accel {
namespace {

/// Layer norm with an optional bias.
class ModernNorm final : public torch::nn::Module {
 public:
  explicit ModernNorm(const ModernBertOptions& options) : epsilon_(options.norm_eps) {
    weight_ = register_parameter("weight", at::ones({options.hidden_size}));
    if (options.norm_bias) bias_ = register_parameter("bias", at::zeros({options.hidden_size}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon_);
  }

 private:
  at::Tensor weight_, bias_;
  double epsilon_;
};

/// What layers with and without a window share in a pass: rotations, [length, head_dim] or those of
/// rows, and a mask, bool [batch or 1, 1, length or 1, length], true for visible tokens; undefined:
/// all are.
struct ModernPass {
  RopeTurns turns;
  at::Tensor mask;
};

class ModernAttention final : public torch::nn::Module {
 public:
  ModernAttention(const ModernBertOptions& options, const TensorRanksPtr& ranks)
      : ranks_(ranks),
        heads_(options.num_heads / (ranks ? ranks->size() : 1)),
        dropout_(options.attention_dropout) {
    const int64_t width = options.hidden_size;
    qkv_ = llama_linear(*this, "Wqkv", width, 3 * width, options.attention_bias);
    out_ = llama_linear(*this, "Wo", width, width, options.attention_bias);
    out_->divide_inputs(ranks);
  }
  /// [batch, length, hidden_size] to the same.
  at::Tensor forward(const at::Tensor& x, const ModernPass& pass) {
    const double dropout = is_training() ? dropout_ : 0.0;
    const at::Tensor y = out_->forward(attended(x, pass, dropout));
    return at::dropout(y, dropout, dropout > 0);
  }

 private:
  at::Tensor attended(const at::Tensor& x, const ModernPass& pass, double dropout) {
    const at::Tensor all =
        qkv_->forward(enter(ranks_, x)).unflatten(2, {3, heads_, -1}).permute({2, 0, 3, 1, 4});
    const at::Tensor query = Rope::turn(all[0], pass.turns), key = Rope::turn(all[1], pass.turns);
    const auto stream = own_random_stream(ranks_, x.device(), dropout > 0);
    const at::Tensor y = scored_attention({query, key, all[2], pass.mask, /*is_causal=*/false},
                                          {.dropout = dropout});
    return y.transpose(1, 2).flatten(2);
  }

  TensorRanksPtr ranks_;
  int64_t heads_;  ///< of this rank
  double dropout_;
  AdaptedLinear qkv_{nullptr}, out_{nullptr};
};

class ModernMlp final : public torch::nn::Module {
 public:
  ModernMlp(const ModernBertOptions& options, const TensorRanksPtr& ranks)
      : ranks_(ranks), activation_(options.activation), dropout_(options.mlp_dropout) {
    const int64_t inner = options.inner();
    in_ = llama_linear(*this, "Wi", options.hidden_size, 2 * inner, options.mlp_bias);
    out_ = llama_linear(*this, "Wo", inner, options.hidden_size, options.mlp_bias);
    out_->divide_inputs(ranks);
  }
  at::Tensor forward(const at::Tensor& x) {
    const std::vector<at::Tensor> halves = in_->forward(enter(ranks_, x)).chunk(2, -1);
    const at::Tensor y = activate(activation_, halves[0]).mul(halves[1]);
    return out_->forward(own_dropout(ranks_, y, is_training() ? dropout_ : 0.0));
  }

 private:
  TensorRanksPtr ranks_;
  HfActivation activation_;
  double dropout_;
  AdaptedLinear in_{nullptr}, out_{nullptr};
};

class ModernLayer final : public torch::nn::Module, public Block {
 public:
  ModernLayer(const ModernBertOptions& options, int64_t layer, const TensorRanksPtr& ranks) {
    if (layer > 0) {  // the embeddings end with a norm
      attention_norm_ = register_module("attn_norm", std::make_shared<ModernNorm>(options));
    }
    attention_ = register_module("attn", std::make_shared<ModernAttention>(options, ranks));
    mlp_norm_ = register_module("mlp_norm", std::make_shared<ModernNorm>(options));
    mlp_ = register_module("mlp", std::make_shared<ModernMlp>(options, ranks));
  }
  at::Tensor forward(const at::Tensor& inputs, const ModernPass& pass) {
    const at::Tensor normed = attention_norm_ ? attention_norm_->forward(inputs) : inputs;
    const at::Tensor x = inputs.add(attention_->forward(normed, pass));
    return x.add(mlp_->forward(mlp_norm_->forward(x)));
  }

 private:
  std::shared_ptr<ModernNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<ModernAttention> attention_;
  std::shared_ptr<ModernMlp> mlp_;
};

class ModernEmbeddings final : public torch::nn::Module {
 public:
  ModernEmbeddings(const ModernBertOptions& options, int64_t vocab, const TensorRanksPtr& ranks)
      : ranks_(ranks), pad_(options.pad.value), dropout_(options.embedding_dropout) {
    const auto size = torch::nn::EmbeddingOptions(vocab, options.hidden_size).padding_idx(pad_);
    table_ = register_module("tok_embeddings", AdaptedEmbedding(size));
    norm_ = register_module("norm", std::make_shared<ModernNorm>(options));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor x = table_->adapted(
        vocabulary_embedding(vocabulary(), table_->weight, tokens, /*tied=*/false, pad_), tokens);
    return at::dropout(norm_->forward(x), dropout_, is_training());
  }
  const at::Tensor& weight() const { return table_->weight; }
  DividedVocabulary vocabulary() const { return {ranks_.get(), table_->options.num_embeddings()}; }

 private:
  TensorRanksPtr ranks_;
  std::optional<int64_t> pad_;
  double dropout_;
  AdaptedEmbedding table_{nullptr};
  std::shared_ptr<ModernNorm> norm_;
};

class ModernEncoder final : public torch::nn::Module {
 public:
  /// `packed`: see PacksTexts.
  ModernEncoder(const ModernBertOptions& options, int64_t vocab, bool packed,
                const TensorRanksPtr& ranks)
      : options_(options),
        packed_(packed),
        rope_(options.rope, options.head_dim()),
        local_rope_(options.local_rope(), options.head_dim()) {
    embeddings_ =
        register_module("embeddings", std::make_shared<ModernEmbeddings>(options, vocab, ranks));
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      layers_.push_back(std::make_shared<ModernLayer>(options, i, ranks));
      list->push_back(layers_.back());
    }
    register_module("layers", list);
    norm_ = register_module("final_norm", std::make_shared<ModernNorm>(options));
  }

  /// [batch, length, hidden_size].
  at::Tensor forward(const Batch& batch) {
    BlockDiagonalMask texts;
    if (packed_ && batch.segments.defined()) texts = whole_text_mask(batch.segments);
    const ModernPass all = pass_of(batch, texts, rope_, 0);
    const ModernPass local = pass_of(batch, texts, local_rope_, options_.local_attention / 2);
    at::Tensor x =
        chain_input(*layers_.front(), [&] { return embeddings_->forward(batch.inputs); });
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = run_block(*layers_[i], x, options_.slides(static_cast<int64_t>(i)) ? local : all);
    }
    return norm_->forward(x);
  }
  const at::Tensor& word_embedding() const { return embeddings_->weight(); }
  DividedVocabulary vocabulary() const { return embeddings_->vocabulary(); }
  std::vector<Block*> chain() const { return block_chain(layers_); }

 private:
  /// `texts`: of packed texts, else undefined; `reach`: tokens on each side that a token attends
  /// to, 0: all.
  static ModernPass pass_of(const Batch& batch, const BlockDiagonalMask& texts, const Rope& rope,
                            int64_t reach) {
    const int64_t length = batch.inputs.size(1);
    const at::Tensor places = at::arange(length, batch.inputs.options());
    ModernPass pass;
    if (texts.mask.defined()) {
      pass = {rope.turns_of_rows(texts.positions), texts.mask};
    } else {
      pass.turns = rope.turns(0, length, length, batch.inputs.device());
    }
    if (!texts.mask.defined() && batch.lengths.defined()) {
      pass.mask = places.unsqueeze(0).lt(batch.lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1);
    }
    if (reach == 0 || reach >= length - 1) return pass;
    const at::Tensor distance = places.unsqueeze(1).sub(places.unsqueeze(0)).abs();
    const at::Tensor near = distance.le(reach);
    // Padding beyond the reach of all tokens sees itself: a row without keys has no softmax.
    pass.mask = pass.mask.defined() ? pass.mask.logical_and(near).logical_or(distance.eq(0)) : near;
    return pass;
  }

  ModernBertOptions options_;
  bool packed_;
  Rope rope_, local_rope_;
  std::shared_ptr<ModernEmbeddings> embeddings_;
  std::vector<std::shared_ptr<ModernLayer>> layers_;
  std::shared_ptr<ModernNorm> norm_;
};

/// Linear layer, activation and norm below all heads.
class ModernHead final : public torch::nn::Module {
 public:
  explicit ModernHead(const ModernBertOptions& options) : activation_(options.head_activation) {
    const int64_t width = options.hidden_size;
    dense_ = llama_linear(*this, "dense", width, width, options.head_bias);
    norm_ = register_module("norm", std::make_shared<ModernNorm>(options));
  }
  at::Tensor forward(const at::Tensor& x) {
    return norm_->forward(activate(activation_, dense_->forward(x)));
  }

 private:
  HfActivation activation_;
  AdaptedLinear dense_{nullptr};
  std::shared_ptr<ModernNorm> norm_;
};

class ModernBert final : public BatchModel,
                         public TensorParallel,
                         public TokenHead,
                         public BlockChain,
                         public PacksTexts,
                         public InputSpec {
 public:
  static constexpr auto kName = "modernbert";
  static constexpr auto kSummary =
      "A ModernBERT encoder of texts with a head for classes, labels, answers or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<ModernBertOptions> schema() { return ModernBertOptions::schema(); }
  static bool reads(const std::string& model_type) { return model_type == "modernbert"; }
  static ModernBertOptions from_config(HfConfig& config) {
    return ModernBertOptions::from_config(config);
  }
  static void to_config(const ModernBertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    options.to_config(shapes, config);
  }
  static HfNames names(const ModernBertOptions&) {
    HfNames names = {"model.",
                     {},
                     {"decoder.*", "head.*", "classifier.*"},
                     {"decoder.*", "head.*", "classifier.*"}};
    names.tied_head = {"decoder.weight", "model.embeddings.tok_embeddings.weight"};
    return names;
  }

  ModernBert(const ModernBertOptions& options, const ModelContext& context);

  at::Tensor forward_batch(const Batch& batch) override;
  TensorPlan tensor_plan(int64_t ranks) const override;
  DividedVocabulary vocabulary() const override { return encoder_->vocabulary(); }
  bool has_token_head() const override { return head_for_ == EncoderHead::kTokens; }
  at::Tensor token_features(const Batch& batch) override {
    return enter(ranks_, head_->forward(encoder_->forward(batch)));
  }
  at::Tensor token_weight() override { return encoder_->word_embedding(); }
  at::Tensor token_bias() override { return decoder_bias_; }
  std::vector<Block*> chain() override { return encoder_->chain(); }
  at::Tensor tied_weight() override {
    return has_token_head() ? encoder_->word_embedding() : at::Tensor();
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return task_of(head_for_, classifier_task_); }
  void validate_input(const DataShape& data) const override {
    check_length(kName, longest_, data);
    check_texts(kName, packed_, data);
  }
  TextOutput text_output() const override { return text_output_of(head_for_); }

 private:
  at::Tensor pooled(const at::Tensor& hidden, const Batch& batch) const;
  void initialise();

  ModernBertOptions options_;
  TensorRanksPtr ranks_;
  EncoderHead head_for_;
  bool packed_;  ///< built for packed texts
  const char* classifier_task_;
  int64_t longest_;
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  std::shared_ptr<ModernEncoder> encoder_;
  std::shared_ptr<ModernHead> head_;
  AdaptedLinear classifier_{nullptr};
  at::Tensor decoder_bias_;
};

ModernBert::ModernBert(const ModernBertOptions& options, const ModelContext& context)
    : options_(options),
      ranks_(context.tensor),
      head_for_(options.head.value_or(encoder_head_for(context.data))),
      packed_(is_packed(context.data)),
      classifier_task_(classifier_task(options.problem_type, context.data)) {
  const DataShape& data = context.data;
  require_tokens(kName, data);
  const int64_t length = data.input.empty() ? 0 : data.input[0];
  const int64_t vocab = sufficient_size({kName, "vocab_size", options.vocab_size, data.vocab});
  longest_ = sufficient_size({kName, "max_seq_len", options.max_seq_len, length});
  if (options.pad.value_or(0) >= vocab) {
    throw Error(ExitCode::kRecipe,
                text("'pad' of the model '{}' is {}, but token ids are below {}", kName,
                     *options.pad, vocab),
                "set the tokenizer's padding token");
  }
  if (packed_ && options.rope.depends_on_length()) {
    throw Error(ExitCode::kRecipe,
                text("the model '{}' does not support packed texts with rotary positions that "
                     "depend on the length of a text",
                     kName),
                "leave out 'pack', or change 'rope.scaling'");
  }
  encoder_ = net_->register_module(
      "model", std::make_shared<ModernEncoder>(options, vocab, packed_, ranks_));
  head_ = net_->register_module("head", std::make_shared<ModernHead>(options));
  if (head_for_ == EncoderHead::kTokens) {
    const auto decoder = net_->register_module("decoder", std::make_shared<torch::nn::Module>());
    if (options.decoder_bias) {
      decoder_bias_ = decoder->register_parameter("bias", at::zeros({vocab}));
    }
  } else {
    const int64_t in_data = head_for_ == EncoderHead::kSpan     ? kSpanOutputs
                            : head_for_ == EncoderHead::kLabels ? data.classes
                                                                : output_count(data);
    const int64_t outputs = equal_size({kName, "num_classes", options.num_classes, in_data});
    classifier_ = llama_linear(*net_, "classifier", options.hidden_size, outputs, true);
  }
  initialise();
}

/// As transformers, but not truncated.
void ModernBert::initialise() {
  constexpr double kDeviation = 0.02;
  const double of_outputs = kDeviation / std::sqrt(2.0 * static_cast<double>(options_.num_layers));
  const double of_classes = 1 / std::sqrt(static_cast<double>(options_.hidden_size));
  const torch::NoGradGuard no_grad;
  for (const auto& item : net_->named_parameters()) {
    const std::string& name = item.key();
    if (item.value().dim() != 2) {
      if (name.ends_with(".bias")) item.value().zero_();
      continue;
    }
    const bool is_output = name.ends_with(".Wo.weight") || name.ends_with("head.dense.weight");
    const double deviation = name == "classifier.weight" ? of_classes
                             : is_output                 ? of_outputs
                                                         : kDeviation;
    torch::nn::init::normal_(item.value(), 0.0, deviation);
    if (options_.pad && name.ends_with("tok_embeddings.weight"))
      item.value()[*options_.pad].zero_();
  }
}

at::Tensor ModernBert::pooled(const at::Tensor& hidden, const Batch& batch) const {
  if (options_.pooling == TextPooling::kCls) return hidden.select(1, 0);
  if (!batch.lengths.defined()) return hidden.mean(1);
  const at::Tensor places = at::arange(hidden.size(1), batch.lengths.options());
  const at::Tensor counted =
      places.lt(batch.lengths.unsqueeze(1)).unsqueeze(2).to(hidden.scalar_type());
  return hidden.mul(counted).sum(1).div(counted.sum(1));
}

at::Tensor ModernBert::forward_batch(const Batch& batch) {
  if (has_token_head()) {
    const at::Tensor scores = at::linear(token_features(batch), token_weight(), decoder_bias_);
    return ranks_ ? ranks_->gather_features(scores, vocabulary().size) : scores;
  }
  const at::Tensor hidden = encoder_->forward(batch);
  const bool of_text = head_for_ == EncoderHead::kClasses;
  const at::Tensor x = head_->forward(of_text ? pooled(hidden, batch) : hidden);
  return classifier_->forward(at::dropout(x, options_.head_dropout, net_->is_training()));
}

/// As of BERT: the fused projections are divided for query, key and value, and for both factors of
/// the MLP. The head below the classifier or the decoder is whole.
TensorPlan ModernBert::tensor_plan(int64_t ranks) const {
  using enum TensorStyle;
  check_divides("num_heads", options_.num_heads, ranks);
  TensorPlan plan = {{"model.embeddings.tok_embeddings", kEmbeddingRowwise},
                     {"model.layers.*.attn.Wqkv", kColwise, 3},
                     {"model.layers.*.attn.Wo", kRowwise},
                     {"model.layers.*.mlp.Wi", kColwise, 2},
                     {"model.layers.*.mlp.Wo", kRowwise}};
  // With the embedding as its weight.
  if (decoder_bias_.defined()) plan.push_back({"decoder", kColwise});
  return plan;
}

const RegisterPretrained<ModernBert> modernbert;

}  // namespace
}  // namespace accel
