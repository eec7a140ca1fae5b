// GPT-NeoX (Black et al. 2022, arXiv:2204.06745) and Pythia: a causal transformer with rotary
// positions of a part of each head, and blocks whose attention and MLP read the same input.
// Parameter names are Hugging Face's.
#include <nlohmann/json.hpp>

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

struct GptNeoxOptions {
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kGelu;
  double norm_eps = 1e-5;
  RopeOptions rope = {.partial_rotary_factor = 0.25};
  bool parallel_residual = true;
  bool attention_bias = true;
  bool tie_embeddings = false;
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
  int64_t head_dim() const { return hidden_size / num_heads; }
};

torch::nn::LayerNorm neox_norm(const GptNeoxOptions& options) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({options.hidden_size}).eps(options.norm_eps));
}

class GptNeoxAttention final : public torch::nn::Module {
 public:
  GptNeoxAttention(const GptNeoxOptions& options, const TensorRanksPtr& ranks)
      : head_dim_(options.head_dim()), dropout_(options.attention_dropout), ranks_(ranks) {
    const int64_t width = options.hidden_size;
    const bool bias = options.attention_bias;
    query_key_value_ = register_module(
        "query_key_value", AdaptedLinear(torch::nn::LinearOptions(width, 3 * width).bias(bias)));
    dense_ =
        decoder_output(*this, "dense", torch::nn::LinearOptions(width, width).bias(bias), ranks);
  }

  at::Tensor forward(const at::Tensor& x, const DecoderPass& pass, LayerCache* seen) {
    // Query, key and value of a head are consecutive.
    const at::Tensor fused = query_key_value_->forward(enter(ranks_, x));
    const std::vector<at::Tensor> parts =
        fused.unflatten(2, {-1, 3 * head_dim_}).transpose(1, 2).chunk(3, -1);
    return dense_->forward(
        attend({parts[0], parts[1], parts[2]}, pass, seen, is_training() ? dropout_ : 0.0, ranks_));
  }

 private:
  int64_t head_dim_;
  double dropout_;
  TensorRanksPtr ranks_;
  AdaptedLinear query_key_value_{nullptr}, dense_{nullptr};
};

class GptNeoxMlp final : public torch::nn::Module {
 public:
  GptNeoxMlp(const GptNeoxOptions& options, const TensorRanksPtr& ranks)
      : activation_(options.activation), ranks_(ranks) {
    const int64_t width = options.hidden_size, inner = options.inner();
    in_ = register_module("dense_h_to_4h", AdaptedLinear(width, inner));
    out_ = decoder_output(*this, "dense_4h_to_h", {inner, width}, ranks);
  }

  at::Tensor forward(const at::Tensor& x) {
    return feed_forward(activation_, *in_, *out_, enter(ranks_, x));
  }

 private:
  HfActivation activation_;
  TensorRanksPtr ranks_;
  AdaptedLinear in_{nullptr}, out_{nullptr};
};

class GptNeoxBlock final : public DecoderBlock {
 public:
  GptNeoxBlock(const GptNeoxOptions& options, const TensorRanksPtr& ranks)
      : is_parallel_(options.parallel_residual), dropout_(options.dropout), ranks_(ranks) {
    attention_norm_ = register_module("input_layernorm", neox_norm(options));
    mlp_norm_ = register_module("post_attention_layernorm", neox_norm(options));
    attention_ = register_module("attention", std::make_shared<GptNeoxAttention>(options, ranks));
    mlp_ = register_module("mlp", std::make_shared<GptNeoxMlp>(options, ranks));
  }

  at::Tensor forward(const at::Tensor& x, const DecoderPass& pass, LayerCache* seen) override {
    const at::Tensor attended =
        dropped(attention_->forward(attention_norm_->forward(x), pass, seen));
    if (is_parallel_) {
      return dropped(mlp_->forward(mlp_norm_->forward(x))).add(attended).add(x);
    }
    const at::Tensor sum = attended.add(x);
    return dropped(mlp_->forward(mlp_norm_->forward(sum))).add(sum);
  }

 private:
  at::Tensor dropped(const at::Tensor& x) const {
    return residual_dropout(ranks_, x, is_training() ? dropout_ : 0);
  }

  bool is_parallel_;
  double dropout_;
  TensorRanksPtr ranks_;
  torch::nn::LayerNorm attention_norm_{nullptr}, mlp_norm_{nullptr};
  std::shared_ptr<GptNeoxAttention> attention_;
  std::shared_ptr<GptNeoxMlp> mlp_;
};

class GptNeoxBody final : public DecoderBody {
 public:
  GptNeoxBody(int64_t vocab, const GptNeoxOptions& options, const TensorRanksPtr& ranks)
      : DecoderBody(vocab, ranks),
        rope_(options.rope, options.head_dim()),
        is_tied_(options.tie_embeddings),
        dropout_(options.dropout),
        embed_in_(register_module("embed_in", AdaptedEmbedding(vocab, options.hidden_size))) {
    std::vector<std::shared_ptr<DecoderBlock>> blocks;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks.push_back(std::make_shared<GptNeoxBlock>(options, ranks));
    }
    add_blocks("layers", std::move(blocks));
    norm_ = register_module("final_layer_norm", neox_norm(options));
    initialise_decoder(*this);
  }

  const at::Tensor& token_embedding() const override { return embed_in_->weight; }

 private:
  RopeTurns turns_of(const at::Tensor& positions) const override {
    return rope_.turns_of_rows(positions);
  }
  at::Tensor embedded(const at::Tensor& tokens, const at::Tensor&) override {
    const at::Tensor x = with_embedding_noise(
        embed_in_->adapted(vocabulary_embedding(vocabulary(), embed_in_->weight, tokens, is_tied_),
                           own_part(ranks(), tokens, 1)));
    return residual_dropout(ranks(), x, is_training() ? dropout_ : 0);
  }
  at::Tensor finished(const at::Tensor& x) override { return enter(ranks(), norm_->forward(x)); }

  Rope rope_;
  bool is_tied_;
  double dropout_;
  AdaptedEmbedding embed_in_;
  torch::nn::LayerNorm norm_{nullptr};
};

/// transformers' module calls the head `lm_head`, its folders `embed_out`.
std::string stored_neox_name(const std::string& name) {
  constexpr std::string_view kHead = "lm_head.";
  return name.starts_with(kHead) ? std::string("embed_out.").append(name.substr(kHead.size()))
                                 : name;
}

std::string module_neox_name(const std::string& name) {
  return name;
}

void check_neox(const GptNeoxOptions& options, const Node& node, Reading& reading) {
  const bool whole = check_multiple({"hidden_size", options.hidden_size},
                                    {"num_heads", options.num_heads}, node, reading);
  if (whole) options.rope.check(options.head_dim(), node, reading);
  if (options.rope.depends_on_length()) {
    reading.problems.error(node.where,
                           "'gpt_neox' does not support 'rope.scaling' dynamic and longrope",
                           "set linear, yarn or llama3, or leave it out");
  }
  check_decoder_head(options, node, reading);
}

class GptNeox final : public DecoderModel {
 public:
  static constexpr auto kName = "gpt_neox";
  static constexpr const char* kHintFor[] = {"gptneox", "gpt-neox", "pythia"};
  static constexpr auto kSummary =
      "A GPT-NeoX or Pythia language model: rotary positions, attention beside the MLP.";
  static constexpr bool kGenerates = true;

  static Schema<GptNeoxOptions> schema();
  static bool reads(const std::string& model_type) { return model_type == "gpt_neox"; }
  static GptNeoxOptions from_config(HfConfig& config);
  static void to_config(const GptNeoxOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const GptNeoxOptions& options);

  GptNeox(const GptNeoxOptions& options, const ModelContext& context)
      : DecoderModel({.head = DecoderHead::of(kName, options),
                      .base = "gpt_neox",
                      .vocab_size = options.vocab_size,
                      .max_seq_len = options.max_seq_len,
                      .num_heads = options.num_heads,
                      .head_inputs = options.hidden_size,
                      .tie_embeddings = options.tie_embeddings,
                      .attention_dropout = options.attention_dropout},
                     context, [&](int64_t vocab, int64_t) {
                       return std::make_shared<GptNeoxBody>(vocab, options, context.tensor);
                     }) {}

 private:
  TensorPlan body_plan() const override {
    using enum TensorStyle;
    return {{"embed_in", kEmbeddingRowwise},
            {"layers.*.attention.query_key_value", kColwise},
            {"layers.*.attention.dense", kRowwise},
            {"layers.*.mlp.dense_h_to_4h", kColwise},
            {"layers.*.mlp.dense_4h_to_h", kRowwise},
            {"layers.*.input_layernorm", kSequenceParallel},
            {"layers.*.post_attention_layernorm", kSequenceParallel},
            {"final_layer_norm", kSequenceParallel}};
  }
};

Schema<GptNeoxOptions> GptNeox::schema() {
  using Options = GptNeoxOptions;
  const auto chance = within(0.0, 1.0);
  auto sizes = with_sizes(transformer_schema<Options>("Maximum sequence length."),
                          "Features inside a block's MLP; auto: four times the hidden size.")
                   .field("activation", &Options::activation, "Between the MLP's two layers.")
                   .on_resume(Change::kImpossible)
                   .field("rope", &Options::rope, "Rotary position embedding.")
                   .on_resume(Change::kImpossible)
                   .field("parallel_residual", &Options::parallel_residual,
                          "Whether attention and MLP of a block read the same input; false: the "
                          "MLP reads the sum of input and attention.")
                   .on_resume(Change::kImpossible)
                   .hint_for({"use_parallel_residual"})
                   .field("attention_bias", &Options::attention_bias,
                          "Whether the layers of attention have a bias.")
                   .on_resume(Change::kImpossible);
  sizes = with_decoder_head(
      with_tie_embeddings(with_norm_eps(std::move(sizes), "Added to a norm's variance.")));
  return with_weights(std::move(sizes)
                          .field("dropout", &Options::dropout,
                                 "Dropout of embeddings, and of the outputs of attention and MLP.",
                                 chance)
                          .field("attention_dropout", &Options::attention_dropout,
                                 "Dropout of attention weights.", chance)
                          .check(&check_neox));
}

GptNeoxOptions GptNeox::from_config(HfConfig& config) {
  config.ignore({"is_decoder"});  // attention is causal in any case
  GptNeoxOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 2048)};
  read_hf_sizes(config, {}, options);
  RopeDefaults defaults = {.theta = config.number("rotary_emb_base", 10000.0),
                           .partial_rotary_factor = config.number("rotary_pct", 0.25),
                           .context = *options.max_seq_len};
  // Older files have both names of each; transformers reads these two.
  config.want("rope_theta", defaults.theta, "differs from 'rotary_emb_base'");
  config.want("partial_rotary_factor", defaults.partial_rotary_factor, "differs from 'rotary_pct'");
  options.rope = RopeOptions::from_config(config, defaults);
  if (options.rope.depends_on_length()) {
    config.refuse(text("'{}' has the rope type dynamic or longrope, which this model does not do",
                       config.path()));
  }
  options.parallel_residual = config.flag("use_parallel_residual", true);
  options.attention_bias = config.flag("attention_bias", true);
  options.tie_embeddings = config.flag("tie_word_embeddings", false);
  options.dropout = config.number("hidden_dropout", 0.0);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  read_decoder_head(config, options);
  options.head_dropout = {config.number("classifier_dropout", 0.1)};
  if (has_own_head(config, names(options))) options.tie_embeddings = false;
  return options;
}

void GptNeox::to_config(const GptNeoxOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
  config["model_type"] = "gpt_neox";
  write_decoder_head(DecoderHead::of(kName, options), "GPTNeoX", shapes, config);
  config["vocab_size"] = shapes.at("gpt_neox.embed_in.weight").at(0);
  if (options.max_seq_len) config["max_position_embeddings"] = *options.max_seq_len;
  write_hf_sizes(options, options.inner(), {}, config);
  options.rope.to_config(config);
  // The default is 0.25.
  config["rope_parameters"]["partial_rotary_factor"] = options.rope.partial_rotary_factor;
  for (const char* key : {"rotary_pct", "rotary_emb_base"}) config.erase(key);
  config["use_parallel_residual"] = options.parallel_residual;
  config["attention_bias"] = options.attention_bias;
  config["tie_word_embeddings"] = options.tie_embeddings;
  config["hidden_dropout"] = options.dropout;
  config["attention_dropout"] = options.attention_dropout;
}

HfNames GptNeox::names(const GptNeoxOptions& options) {
  HfNames out{"gpt_neox.",
              {},
              {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"},
              {},
              &stored_neox_name,
              {.name = &module_neox_name}};
  add_head_names(options.head_kind(), options.tie_embeddings ? "gpt_neox.embed_in.weight" : "",
                 "embed_out.weight", out);
  return out;
}

const RegisterPretrained<GptNeox> gpt_neox;

}  // namespace
}  // namespace accel
