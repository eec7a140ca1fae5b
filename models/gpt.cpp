// GPT-2: a causal transformer with learned positions; the head is tied to the token embedding or
// separate. Parameter names are those of Hugging Face's GPT-2, with linear weights stored [out, in]
// as in nn.Linear.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "kernels/residual_norm.h"
#include "models/decoder_model.h"
#include "models/gpt_options.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/embedding_noise.h"
#include "models/layers/packed_projection.h"
#include "models/layers/tensor_parallel.h"

namespace accel {
namespace {

constexpr double kGptWeightDeviation = 0.02;

class GptAttention final : public torch::nn::Module {
 public:
  GptAttention(const GptOptions& options, const TensorRanksPtr& ranks)
      : c_attn_(
            register_module("c_attn", AdaptedLinear(options.hidden_size, 3 * options.hidden_size))),
        c_proj_(decoder_output(*this, "c_proj", {options.hidden_size, options.hidden_size}, ranks)),
        head_dim_(options.hidden_size / options.num_heads),
        dropout_(options.dropout),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)),
        ranks_(ranks) {}

  at::Tensor forward(const at::Tensor& inputs, const DecoderPass& pass, LayerCache* seen) {
    const at::Tensor fused = c_attn_->forward(enter(ranks_, inputs));
    const std::vector<at::Tensor> parts = split_projection(fused, 3);
    const at::Tensor y = attend({by_head(parts[0]), by_head(parts[1]), by_head(parts[2])}, pass,
                                seen, is_training() ? attention_dropout_ : 0.0, ranks_);
    return residual_dropout(ranks_, c_proj_->forward(y), is_training() ? dropout_ : 0);
  }

  AdaptedLinear projection() { return c_proj_; }

 private:
  /// [batch, context, width] to [batch, heads, context, width / heads]
  at::Tensor by_head(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), -1, head_dim_}).transpose(1, 2);
  }

  AdaptedLinear c_attn_, c_proj_;
  int64_t head_dim_;
  double dropout_, attention_dropout_;
  TensorRanksPtr ranks_;
};

class GptMlp final : public torch::nn::Module {
 public:
  GptMlp(const GptOptions& options, int64_t hidden, const TensorRanksPtr& ranks)
      : c_fc_(register_module("c_fc", AdaptedLinear(options.hidden_size, hidden))),
        c_proj_(decoder_output(*this, "c_proj", {hidden, options.hidden_size}, ranks)),
        activation_(options.activation),
        dropout_(options.dropout),
        ranks_(ranks) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = feed_forward(activation_, *c_fc_, *c_proj_, enter(ranks_, x));
    return residual_dropout(ranks_, y, is_training() ? dropout_ : 0);
  }

  AdaptedLinear projection() { return c_proj_; }

 private:
  AdaptedLinear c_fc_, c_proj_;
  HfActivation activation_;
  double dropout_;
  TensorRanksPtr ranks_;
};

torch::nn::LayerNorm gpt_norm(const GptOptions& options) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({options.hidden_size}).eps(options.norm_eps));
}

NormRule rule_of(const torch::nn::LayerNormImpl& norm) {
  return {.weight = norm.weight, .bias = norm.bias, .eps = norm.options.eps()};
}

class GptBlock final : public DecoderBlock {
 public:
  GptBlock(const GptOptions& options, const TensorRanksPtr& ranks)
      : ln_1_(register_module("ln_1", gpt_norm(options))),
        attn_(register_module("attn", std::make_shared<GptAttention>(options, ranks))),
        ln_2_(register_module("ln_2", gpt_norm(options))),
        mlp_(register_module("mlp", std::make_shared<GptMlp>(options, options.inner(), ranks))) {}

  at::Tensor forward(const at::Tensor& inputs, const DecoderPass& pass, LayerCache* seen) override {
    const ResidualNorm first = residual_norm(inputs, {}, rule_of(*ln_1_));
    const at::Tensor attended = attn_->forward(first.normed, pass, seen);
    const ResidualNorm second = residual_norm(first.sum, attended, rule_of(*ln_2_));
    return second.sum.add(mlp_->forward(second.normed));
  }

  std::vector<AdaptedLinear> projections() { return {attn_->projection(), mlp_->projection()}; }

 private:
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<GptAttention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<GptMlp> mlp_;
};

class GptTransformer final : public DecoderBody {
 public:
  GptTransformer(int64_t vocab, int64_t context, const GptOptions& options,
                 const TensorRanksPtr& ranks)
      : DecoderBody(vocab, ranks),
        wte_(register_module("wte", AdaptedEmbedding(vocab, options.hidden_size))),
        wpe_(register_module("wpe", AdaptedEmbedding(context, options.hidden_size))),
        is_tied_(options.tie_embeddings),
        dropout_(options.embedding_dropout.value_or(options.dropout)) {
    std::vector<std::shared_ptr<GptBlock>> blocks;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks.push_back(std::make_shared<GptBlock>(options, ranks));
    }
    add_blocks("h", {blocks.begin(), blocks.end()});
    ln_f_ = register_module("ln_f", gpt_norm(options));
    initialise_decoder(*this);
    // Every block adds to the residual stream twice: keeps its variance independent of the depth.
    const double deviation =
        kGptWeightDeviation / std::sqrt(2.0 * static_cast<double>(blocks.size()));
    for (const auto& block : blocks) {
      for (auto& layer : block->projections()) {
        torch::nn::init::normal_(layer->weight, 0.0, deviation);
      }
    }
  }

  const at::Tensor& token_embedding() const override { return wte_->weight; }

 private:
  at::Tensor embedded(const at::Tensor& tokens, const at::Tensor& positions) override {
    const at::Tensor words = with_embedding_noise(
        wte_->adapted(vocabulary_embedding(vocabulary(), wte_->weight, tokens, is_tied_),
                      own_part(ranks(), tokens, 1)));
    const at::Tensor sum =
        words.add(wpe_->forward(own_part(ranks(), positions, positions.dim() - 1)));
    return residual_dropout(ranks(), sum, is_training() ? dropout_ : 0);
  }
  at::Tensor finished(const at::Tensor& x) override { return enter(ranks(), ln_f_->forward(x)); }

  AdaptedEmbedding wte_, wpe_;
  torch::nn::LayerNorm ln_f_{nullptr};
  bool is_tied_;
  double dropout_;
};

class Gpt final : public DecoderModel {
 public:
  static constexpr auto kName = "gpt";
  static constexpr const char* kHintFor[] = {"gpt2", "gpt-2", "nanogpt"};
  static constexpr auto kSummary = "A GPT-2 language model: pre-norm blocks, GELU, a tied head.";

  static constexpr bool kGenerates = true;

  static Schema<GptOptions> schema() { return GptOptions::schema(); }
  static bool reads(const std::string& model_type) { return model_type == "gpt2"; }
  static GptOptions from_config(HfConfig& config) { return gpt_options_in(config); }
  static void to_config(const GptOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    write_gpt_options(options, shapes, config);
  }
  static HfNames names(const GptOptions& options) { return options.names(); }
  static GgufModel gguf(const GptOptions& options, const nlohmann::json& config,
                        const std::vector<TensorSource>& weights) {
    return gpt_gguf(options, config, weights);
  }

  Gpt(const GptOptions& options, const ModelContext& context)
      : DecoderModel({.head = DecoderHead::of(kName, options),
                      .base = "transformer",
                      .vocab_size = options.vocab_size,
                      .max_seq_len = options.max_seq_len,
                      .num_heads = options.num_heads,
                      .head_inputs = options.hidden_size,
                      .tie_embeddings = options.tie_embeddings,
                      .attention_dropout = options.attention_dropout.value_or(options.dropout)},
                     context, [&](int64_t vocab, int64_t length) {
                       return std::make_shared<GptTransformer>(vocab, length, options,
                                                               context.tensor);
                     }) {}

 private:
  TensorPlan body_plan() const override {
    using enum TensorStyle;
    return {{"wte", kEmbeddingRowwise},       {"wpe", kSequenceParallel},
            {"h.*.attn.c_attn", kColwise, 3}, {"h.*.attn.c_proj", kRowwise},
            {"h.*.mlp.c_fc", kColwise},       {"h.*.mlp.c_proj", kRowwise},
            {"h.*.ln_1", kSequenceParallel},  {"h.*.ln_2", kSequenceParallel},
            {"ln_f", kSequenceParallel}};
  }
};

const RegisterPretrained<Gpt> gpt;

}  // namespace
}  // namespace accel
