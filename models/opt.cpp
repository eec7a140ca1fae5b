// OPT (Zhang et al. 2022, arXiv:2205.01068) and Galactica: a causal transformer with learned
// positions from row 2 of their table on, ReLU or GELU, and norms before or after the layers.
// Parameter names are Hugging Face's.
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/decoder_model.h"
#include "models/hf/hf_sizes.h"
#include "models/hf/register_pretrained.h"
#include "models/hf/tied_head.h"
#include "models/layers/activations.h"
#include "models/layers/embedding_noise.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

/// Rows of the position table before the first token's.
constexpr int64_t kOptFirstPosition = 2;

struct OptOptions {
  static constexpr bool kPadsEmbedding = true;

  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  Auto<int64_t> embedding_size;
  HfActivation activation = HfActivation::kRelu;
  bool pre_norm = true;
  bool final_norm = true;
  bool norm_affine = true;
  bool bias = true;
  double norm_eps = 1e-5;  ///< not an option: configs have no key for it
  bool tie_embeddings = true;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  Auto<EncoderHead> head;
  Auto<int64_t> num_classes;
  Auto<double> head_dropout;
  Auto<ProblemType> problem_type;
  Auto<int64_t> pad;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;

  EncoderHead head_kind() const {
    return head.value_or(num_classes ? EncoderHead::kClasses : EncoderHead::kTokens);
  }
  int64_t inner() const { return intermediate_size.value_or(4 * hidden_size); }
  int64_t embedded() const { return embedding_size.value_or(hidden_size); }
  bool projects() const { return embedded() != hidden_size; }
  bool ends_with_norm() const { return pre_norm && final_norm; }
};

torch::nn::LayerNorm opt_norm(const OptOptions& options) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.hidden_size})
                                  .eps(options.norm_eps)
                                  .elementwise_affine(options.norm_affine));
}

class OptAttention final : public torch::nn::Module {
 public:
  OptAttention(const OptOptions& options, const TensorRanksPtr& ranks)
      : head_dim_(options.hidden_size / options.num_heads),
        dropout_(options.attention_dropout),
        ranks_(ranks) {
    const auto sizes =
        torch::nn::LinearOptions(options.hidden_size, options.hidden_size).bias(options.bias);
    key_ = register_module("k_proj", AdaptedLinear(sizes));
    value_ = register_module("v_proj", AdaptedLinear(sizes));
    query_ = register_module("q_proj", AdaptedLinear(sizes));
    out_ = decoder_output(*this, "out_proj", sizes, ranks);
  }

  at::Tensor forward(const at::Tensor& inputs, const DecoderPass& pass, LayerCache* seen) {
    const at::Tensor x = enter(ranks_, inputs);
    const auto by_head = [&](const at::Tensor& y) {
      return y.unflatten(2, {-1, head_dim_}).transpose(1, 2);
    };
    const DecoderHeads heads = {by_head(query_->forward(x)), by_head(key_->forward(x)),
                                by_head(value_->forward(x))};
    return out_->forward(attend(heads, pass, seen, is_training() ? dropout_ : 0.0, ranks_));
  }

 private:
  int64_t head_dim_;
  double dropout_;
  TensorRanksPtr ranks_;
  AdaptedLinear key_{nullptr}, value_{nullptr}, query_{nullptr}, out_{nullptr};
};

class OptBlock final : public DecoderBlock {
 public:
  OptBlock(const OptOptions& options, const TensorRanksPtr& ranks)
      : activation_(options.activation),
        pre_norm_(options.pre_norm),
        dropout_(options.dropout),
        ranks_(ranks) {
    const int64_t width = options.hidden_size, inner = options.inner();
    attention_ = register_module("self_attn", std::make_shared<OptAttention>(options, ranks));
    attention_norm_ = register_module("self_attn_layer_norm", opt_norm(options));
    in_ = register_module("fc1",
                          AdaptedLinear(torch::nn::LinearOptions(width, inner).bias(options.bias)));
    out_ = decoder_output(*this, "fc2", torch::nn::LinearOptions(inner, width).bias(options.bias),
                          ranks);
    mlp_norm_ = register_module("final_layer_norm", opt_norm(options));
  }

  at::Tensor forward(const at::Tensor& x, const DecoderPass& pass, LayerCache* seen) override {
    const at::Tensor y = added(x, attention_norm_, [&](const at::Tensor& inputs) {
      return attention_->forward(inputs, pass, seen);
    });
    return added(y, mlp_norm_, [&](const at::Tensor& inputs) {
      return feed_forward(activation_, *in_, *out_, enter(ranks_, inputs));
    });
  }

 private:
  /// The sum of `x` and the layer's output, normalised before the layer or after the sum.
  template <class Layer>
  at::Tensor added(const at::Tensor& x, torch::nn::LayerNorm& norm, const Layer& layer) const {
    const at::Tensor y = layer(pre_norm_ ? norm->forward(x) : x);
    const at::Tensor sum = x.add(residual_dropout(ranks_, y, is_training() ? dropout_ : 0));
    return pre_norm_ ? sum : norm->forward(sum);
  }

  HfActivation activation_;
  bool pre_norm_;
  double dropout_;
  TensorRanksPtr ranks_;
  std::shared_ptr<OptAttention> attention_;
  AdaptedLinear in_{nullptr}, out_{nullptr};
  torch::nn::LayerNorm attention_norm_{nullptr}, mlp_norm_{nullptr};
};

class OptDecoder final : public DecoderBody {
 public:
  OptDecoder(int64_t vocab, int64_t context, const OptOptions& options, const TensorRanksPtr& ranks)
      : DecoderBody(vocab, ranks), pad_(options.pad.value) {
    const int64_t width = options.hidden_size, embedded = options.embedded();
    const auto words = torch::nn::EmbeddingOptions(vocab, embedded).padding_idx(pad_);
    words_ = register_module("embed_tokens", AdaptedEmbedding(words));
    positions_ =
        register_module("embed_positions", AdaptedEmbedding(kOptFirstPosition + context, width));
    const auto projection = [&](const char* name, int64_t inputs, int64_t outputs) {
      const auto sizes = torch::nn::LinearOptions(inputs, outputs).bias(false);
      return register_module(name, AdaptedLinear(sizes));
    };
    if (options.projects()) project_in_ = projection("project_in", embedded, width);
    std::vector<std::shared_ptr<DecoderBlock>> blocks;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks.push_back(std::make_shared<OptBlock>(options, ranks));
    }
    add_blocks("layers", std::move(blocks));
    if (options.projects()) project_out_ = projection("project_out", width, embedded);
    if (options.ends_with_norm()) norm_ = register_module("final_layer_norm", opt_norm(options));
    initialise_decoder(*this);
  }

  const at::Tensor& token_embedding() const override { return words_->weight; }

 private:
  at::Tensor embedded(const at::Tensor& tokens, const at::Tensor& positions) override {
    at::Tensor x = with_embedding_noise(words_->adapted(
        vocabulary_embedding(vocabulary(), words_->weight, tokens, /*tied=*/false, pad_),
        own_part(ranks(), tokens, 1)));
    if (project_in_) x = project_in_->forward(x);
    const at::Tensor own = own_part(ranks(), positions, positions.dim() - 1);
    return x.add(positions_->forward(own.add(kOptFirstPosition)));
  }
  at::Tensor finished(const at::Tensor& x) override {
    const at::Tensor y = enter(ranks(), norm_ ? norm_->forward(x) : x);
    return project_out_ ? project_out_->forward(y) : y;
  }

  std::optional<int64_t> pad_;
  AdaptedEmbedding words_{nullptr}, positions_{nullptr};
  AdaptedLinear project_in_{nullptr}, project_out_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
};

void check_opt(const OptOptions& options, const Node& node, Reading& reading) {
  check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads}, node,
                 reading);
  if (options.head_kind() == EncoderHead::kLabels) {
    reading.problems.error(node.where, "'opt' has no 'head: labels', as in transformers",
                           "set tokens, classes or span");
  }
  if (!options.pre_norm && !options.final_norm) {
    reading.problems.error(
        node.where, "'final_norm' has no effect with 'pre_norm: false', which ends without one",
        "leave it out");
  }
  check_decoder_head(options, node, reading);
}

class Opt final : public DecoderModel {
 public:
  static constexpr auto kName = "opt";
  static constexpr const char* kHintFor[] = {"galactica"};
  static constexpr auto kSummary =
      "An OPT or Galactica language model: learned positions, ReLU, a tied head.";
  static constexpr bool kGenerates = true;

  static Schema<OptOptions> schema();
  static bool reads(const std::string& model_type) { return model_type == "opt"; }
  static OptOptions from_config(HfConfig& config);
  static void to_config(const OptOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const OptOptions& options);

  Opt(const OptOptions& options, const ModelContext& context)
      : DecoderModel({.head = DecoderHead::of(kName, options),
                      .base = "model.decoder",
                      .vocab_size = options.vocab_size,
                      .max_seq_len = options.max_seq_len,
                      .num_heads = options.num_heads,
                      .head_inputs = options.embedded(),
                      .tie_embeddings = options.tie_embeddings,
                      .attention_dropout = options.attention_dropout},
                     context,
                     [&](int64_t vocab, int64_t length) {
                       check_pad(options, vocab);
                       return std::make_shared<OptDecoder>(vocab, length, options, context.tensor);
                     }),
        options_(options) {}

 private:
  static void check_pad(const OptOptions& options, int64_t vocab) {
    if (options.pad.value_or(0) < vocab) return;
    throw Error(ExitCode::kRecipe,
                text("'pad' of the model '{}' is {}, but token ids are below {}", kName,
                     *options.pad, vocab),
                "set the tokenizer's padding token");
  }
  TensorPlan body_plan() const override;

  OptOptions options_;
};

TensorPlan Opt::body_plan() const {
  using enum TensorStyle;
  TensorPlan plan = {{"embed_tokens", kEmbeddingRowwise},
                     {"embed_positions", kSequenceParallel},
                     {"layers.*.self_attn.q_proj", kColwise},
                     {"layers.*.self_attn.k_proj", kColwise},
                     {"layers.*.self_attn.v_proj", kColwise},
                     {"layers.*.self_attn.out_proj", kRowwise},
                     {"layers.*.fc1", kColwise},
                     {"layers.*.fc2", kRowwise}};
  if (options_.projects()) {
    plan.push_back({"project_in", kSequenceParallel});
    plan.push_back({"project_out", kReplicatedWithGradAllReduce});
  }
  if (!options_.norm_affine) return plan;
  plan.push_back({"layers.*.self_attn_layer_norm", kSequenceParallel});
  plan.push_back({"layers.*.final_layer_norm", kSequenceParallel});
  if (options_.ends_with_norm()) plan.push_back({"final_layer_norm", kSequenceParallel});
  return plan;
}

Schema<OptOptions> with_opt_norms(Schema<OptOptions> schema) {
  using Options = OptOptions;
  return std::move(schema)
      .field("embedding_size", &Options::embedding_size,
             "Features of a token's embedding, which linear layers project to the hidden size and "
             "back, as in OPT-350m; auto: the hidden size, without such layers.",
             if_given<Auto>(at_least<int64_t>(1)))
      .on_resume(Change::kImpossible)
      .hint_for({"word_embed_proj_dim"})
      .field("activation", &Options::activation, "Between the MLP's two layers.")
      .on_resume(Change::kImpossible)
      .field("pre_norm", &Options::pre_norm,
             "Whether norms are before attention and MLP; false: after them, as in OPT-350m.")
      .on_resume(Change::kImpossible)
      .hint_for({"do_layer_norm_before"})
      .field("final_norm", &Options::final_norm,
             "Whether a norm follows the last block; not with `pre_norm: false`.")
      .on_resume(Change::kImpossible)
      .field("norm_affine", &Options::norm_affine, "Whether norms have a weight and a bias.")
      .on_resume(Change::kImpossible)
      .hint_for({"layer_norm_elementwise_affine"})
      .field("bias", &Options::bias, "Whether the layers of attention and MLP have a bias.")
      .on_resume(Change::kImpossible)
      .hint_for({"enable_bias"});
}

Schema<OptOptions> Opt::schema() {
  using Options = OptOptions;
  const auto chance = within(0.0, 1.0);
  auto sizes = with_sizes(transformer_schema<Options>("Maximum sequence length."),
                          "Features inside a block's MLP; auto: four times the hidden size.");
  sizes = with_decoder_head(with_tie_embeddings(with_opt_norms(std::move(sizes))), kPadOfEmbedding);
  return with_weights(std::move(sizes)
                          .field("dropout", &Options::dropout,
                                 "Dropout of the outputs of attention and MLP.", chance)
                          .field("attention_dropout", &Options::attention_dropout,
                                 "Dropout of attention weights.", chance)
                          .check(&check_opt));
}

constexpr HfSizeKeys kOptKeys = {
    .intermediate_size = "ffn_dim", .activation = "activation_function", .norm_eps = nullptr};

OptOptions Opt::from_config(HfConfig& config) {
  config.want("layerdrop", 0.0, "this model does not do");
  config.ignore({"init_std", "is_decoder"});
  OptOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 2048)};
  read_hf_sizes(config, kOptKeys, options);
  options.embedding_size = {config.integer("word_embed_proj_dim", options.hidden_size)};
  options.pre_norm = config.flag("do_layer_norm_before", true);
  options.final_norm = !config.flag("_remove_final_layer_norm", false) || !options.pre_norm;
  options.norm_affine = config.flag("layer_norm_elementwise_affine", true);
  options.bias = config.flag("enable_bias", true);
  options.tie_embeddings = config.flag("tie_word_embeddings", true);
  options.dropout = config.number("dropout", 0.1);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  read_decoder_head(config, options);
  if (!config.values().contains("pad_token_id")) options.pad = {1};
  if (has_own_head(config, names(options))) options.tie_embeddings = false;
  return options;
}

void Opt::to_config(const OptOptions& options, const WeightShapes& shapes, nlohmann::json& config) {
  config["model_type"] = "opt";
  write_decoder_head(DecoderHead::of(kName, options), "OPT", shapes, config);
  config["vocab_size"] = shapes.at("model.decoder.embed_tokens.weight").at(0);
  config["max_position_embeddings"] =
      shapes.at("model.decoder.embed_positions.weight").at(0) - kOptFirstPosition;
  write_hf_sizes(options, options.inner(), kOptKeys, config);
  config["word_embed_proj_dim"] = options.embedded();
  config["do_layer_norm_before"] = options.pre_norm;
  config["_remove_final_layer_norm"] = !options.final_norm;
  config["layer_norm_elementwise_affine"] = options.norm_affine;
  config["enable_bias"] = options.bias;
  config["tie_word_embeddings"] = options.tie_embeddings;
  config["dropout"] = options.dropout;
  config["attention_dropout"] = options.attention_dropout;
  config["pad_token_id"] = options.pad ? nlohmann::json(*options.pad) : nlohmann::json();
}

HfNames Opt::names(const OptOptions& options) {
  HfNames out{"model."};
  out.module.later = {
      {"project_in", "project_out"}, {"layers", "project_in"}, {"layers", "final_layer_norm"}};
  add_head_names(options.head_kind(),
                 options.tie_embeddings ? "model.decoder.embed_tokens.weight" : "",
                 "lm_head.weight", out);
  return out;
}

const RegisterPretrained<Opt> opt;

}  // namespace
}  // namespace accel
