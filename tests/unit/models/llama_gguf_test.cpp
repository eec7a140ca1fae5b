// Llama's families as models of llama.cpp's.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/llama_options.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/models/gguf_parts.h"

namespace accel::llama_gguf_test {
namespace {

using gguf_parts::numbered;
using gguf_parts::value;
using gguf_parts::values_of;

using nlohmann::json;

LlamaOptions small() {
  LlamaOptions options;
  options.num_layers = 1;
  options.num_heads = 2;
  options.num_kv_heads = {1};
  options.hidden_size = 8;
  options.intermediate_size = {12};
  return options;
}

json config_of(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 11}, {"max_position_embeddings", 64}};
}

/// The reason for which llama.cpp cannot have the model.
std::string refusal(const LlamaOptions& options, const char* model_type) {
  const std::string found = complaint([&] { llama_gguf(options, config_of(model_type), {}); });
  const std::string first = "llama.cpp's models lack what this model has: ";
  const std::string last = "\nexport a folder for transformers: '--format transformers'";
  if (!found.starts_with(first) || !found.ends_with(last)) return found;
  return found.substr(first.size(), found.size() - first.size() - last.size());
}

TEST(LlamaGgufTest, SizesAreMetadata) {
  const GgufModel model = llama_gguf(small(), config_of("llama"), {});
  EXPECT_EQ(model.architecture, "llama");
  const std::pair<const char*, uint32_t> sizes[] = {{"vocab_size", 11},
                                                    {"context_length", 64},
                                                    {"embedding_length", 8},
                                                    {"block_count", 1},
                                                    {"feed_forward_length", 12},
                                                    {"attention.head_count", 2},
                                                    {"attention.head_count_kv", 1},
                                                    {"attention.key_length", 4},
                                                    {"attention.value_length", 4},
                                                    {"rope.dimension_count", 4}};
  for (const auto& [key, size] : sizes) {
    EXPECT_EQ(value<uint32_t>(model, std::string("llama.") + key), size) << key;
  }
  EXPECT_EQ(value<float>(model, "llama.rope.freq_base"), 10000);
  EXPECT_EQ(value<float>(model, "llama.attention.layer_norm_rms_epsilon"), 1e-6F);
}

TEST(LlamaGgufTest, TensorsHaveLlamaCppsNames) {
  const std::pair<const char*, const char*> cases[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
      {"model.layers.12.input_layernorm.weight", "blk.12.attn_norm.weight"},
      {"model.layers.0.self_attn.v_proj.bias", "blk.0.attn_v.bias"},
      {"model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
      {"model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
      {"model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"}};
  for (const auto& [theirs, ours] : cases) {
    const GgufModel model = llama_gguf(small(), config_of("llama"), {numbered(theirs, {2, 2})});
    EXPECT_EQ(model.tensors.at(0).name, ours);
    EXPECT_EQ(values_of(model.tensors.at(0)), (std::vector<float>{0, 1, 2, 3}));
  }
}

TEST(LlamaGgufTest, OnlyInterleavedPositionsReorderRowsOfQueriesAndKeys) {
  const std::vector<TensorSource> weights = {
      numbered("model.layers.0.self_attn.q_proj.weight", {8, 1}),
      numbered("model.layers.0.self_attn.k_proj.bias", {4})};
  const GgufModel llama = llama_gguf(small(), config_of("llama"), weights);
  EXPECT_EQ(values_of(llama.tensors[0]), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(values_of(llama.tensors[1]), (std::vector<float>{0, 2, 1, 3}));
  const GgufModel qwen = llama_gguf(small(), config_of("qwen2"), weights);
  EXPECT_EQ(values_of(qwen.tensors[0]), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

LlamaOptions gemma(int64_t layers) {
  LlamaOptions options = small();
  options.num_layers = layers;
  options.activation = HfActivation::kGeluTanh;
  options.zero_centered_gamma = options.scale_embeddings = options.sandwich_norms = true;
  return options;
}

TEST(LlamaGgufTest, GemmasNormsAreCenteredAtOne) {
  const GgufModel model =
      llama_gguf(gemma(1), config_of("gemma3_text"),
                 {numbered("model.layers.0.post_attention_layernorm.weight", {3}),
                  numbered("model.layers.0.pre_feedforward_layernorm.weight", {3})});
  EXPECT_EQ(model.tensors[0].name, "blk.0.post_attention_norm.weight");
  EXPECT_EQ(model.tensors[1].name, "blk.0.ffn_norm.weight");
  EXPECT_EQ(values_of(model.tensors[0]), (std::vector<float>{1, 2, 3}));
}

TEST(LlamaGgufTest, RopeScalingIsMetadataOrDivisors) {
  LlamaOptions options = small();
  options.rope.factor = 8;
  options.rope.original_max_position_embeddings = 16;
  options.rope.scaling = RopeScaling::kLinear;
  GgufModel model = llama_gguf(options, config_of("llama"), {});
  EXPECT_EQ(value<std::string>(model, "llama.rope.scaling.type"), "linear");
  EXPECT_EQ(value<float>(model, "llama.rope.scaling.factor"), 8);
  options.rope.scaling = RopeScaling::kYarn;
  model = llama_gguf(options, config_of("llama"), {});
  EXPECT_EQ(value<uint32_t>(model, "llama.rope.scaling.original_context_length"), 16U);
  options.rope.scaling = RopeScaling::kLlama3;
  model = llama_gguf(options, config_of("llama"), {});
  EXPECT_EQ(model.tensors.at(0).name, "rope_freqs.weight");
  // Wavelengths of 6.3 tokens, between 16 / 4 and 16, and of 628.
  const std::vector<float> divisors = values_of(model.tensors[0]);
  EXPECT_NEAR(divisors.at(0), 1 / (0.515493 + 0.484507 / 8), 1e-5);
  EXPECT_NEAR(divisors.at(1), 8, 1e-5);
}

TEST(LlamaGgufTest, LongRopeOfPhi3HasTwoListsOfDivisorsAndANote) {
  LlamaOptions options = small();
  options.rope.scaling = RopeScaling::kLongRope;
  options.rope.original_max_position_embeddings = 16;
  options.rope.short_factor = {1, 2};
  options.rope.long_factor = {3, 4};
  const GgufModel model = llama_gguf(options, config_of("phi3"), {});
  EXPECT_EQ(model.tensors.at(0).name, "rope_factors_long.weight");
  EXPECT_EQ(values_of(model.tensors.at(0)), (std::vector<float>{3, 4}));
  EXPECT_EQ(values_of(model.tensors.at(1)), (std::vector<float>{1, 2}));
  EXPECT_EQ(model.notes,
            (std::vector<std::string>{
                "llama.cpp takes longrope's factors by the context that it was started with: the "
                "long ones above 16 tokens, for short texts too"}));
}

TEST(LlamaGgufTest, AWeightWithoutANameIsRefused) {
  const std::vector<TensorSource> weights = {numbered("model.layers.0.other.weight", {2})};
  EXPECT_EQ(
      complaint([&] { llama_gguf(small(), config_of("llama"), weights); }),
      "llama.cpp's models lack what this model has: the weight 'model.layers.0.other.weight'\n"
      "export a folder for transformers: '--format transformers'");
}

TEST(LlamaGgufTest, WindowsThatWouldBeIgnoredAreRefused) {
  LlamaOptions options = small();
  options.sliding_window = {63};
  EXPECT_EQ(refusal(options, "mistral"),
            "'sliding_window' of 63, which it would ignore in mistral");
  options.sliding_window = {64};
  EXPECT_EQ(refusal(options, "mistral"), "");
  options = gemma(3);
  options.sliding_window = {8};
  options.attn_logit_softcapping = {50};
  options.final_logit_softcapping = {30};
  EXPECT_EQ(refusal(options, "gemma2"),
            "'layer_types' in which not layer 2 of 2 is the one without a window");
  options.layer_types = {LlamaLayerType::kSliding, LlamaLayerType::kFull};
  const GgufModel model = llama_gguf(options, config_of("gemma2"), {});
  EXPECT_EQ(value<uint32_t>(model, "gemma2.attention.sliding_window"), 8U);
  EXPECT_EQ(value<float>(model, "gemma2.attn_logit_softcapping"), 50);
}

TEST(LlamaGgufTest, WhatLlamaCppLacksIsRefused) {
  struct Case {
    const char* model_type;
    void (*change)(LlamaOptions&);
    const char* reason;
  };
  const Case cases[] = {
      {"llama", [](LlamaOptions& o) { o.num_classes = {3}; },
       "a head in place of the language model's"},
      {"llama", [](LlamaOptions& o) { o.activation = HfActivation::kGeluTanh; },
       "'activation' other than that of llama"},
      {"qwen3", [](LlamaOptions& o) { o.attention_bias = LlamaBias::kAll; }, "biases in qwen3"},
      {"qwen2", [](LlamaOptions& o) { o.head_dim = {16}; },
       "'head_dim' of 16 in qwen2, and 2 heads and 8 features"},
      {"llama", [](LlamaOptions& o) { o.nope_layers = {0}; },
       "layer 0 without rotary positions ('nope_layers')"},
      {"smollm3", [](LlamaOptions& o) { o.num_layers = 4; },
       "layer 3 with rotary positions ('nope_layers')"},
      {"llama", [](LlamaOptions& o) { o.rope.scaling = RopeScaling::kDynamic; },
       "'rope.scaling: dynamic'"},
      {"qwen2", [](LlamaOptions& o) { o.rope.scaling = RopeScaling::kLlama3; },
       "'rope.scaling: llama3' in qwen2"},
      {"llama", [](LlamaOptions& o) { o.rope.scaling = RopeScaling::kLongRope; },
       "'rope.scaling: longrope' in llama"},
      {"llama",
       [](LlamaOptions& o) {
         o.rope.scaling = RopeScaling::kYarn;
         o.rope.beta_fast = 16;
       },
       "'rope.scaling: yarn' with options other than the usual ones"}};
  for (const Case& each : cases) {
    LlamaOptions options = small();
    each.change(options);
    EXPECT_EQ(refusal(options, each.model_type), each.reason);
  }
  LlamaOptions options = gemma(1);
  EXPECT_EQ(refusal(options, "gemma2"), "a Gemma 2 without soft caps");
  options.final_logit_softcapping = {30};
  EXPECT_EQ(refusal(options, "gemma3_text"), "'final_logit_softcapping' in gemma3");
  options.final_logit_softcapping = {};
  options.query_pre_attn_scalar = {5};
  EXPECT_EQ(refusal(options, "gemma3_text"), "'query_pre_attn_scalar' of 5 instead of 4");
  options.query_pre_attn_scalar = {};
  options.sliding_window = {8};
  options.local_rope_theta = {500};
  EXPECT_EQ(refusal(options, "gemma3_text"), "'local_rope_theta' of 500 instead of 10000");
  EXPECT_EQ(complaint([&] { llama_gguf(options, config_of("other"), {}); }),
            "a GGUF file cannot be written of the model type 'other'\n"
            "it can of 'llama', 'mistral', 'mixtral', 'smollm3', 'qwen2', 'qwen2_moe', 'qwen3', "
            "'qwen3_moe', 'phi3', 'gemma', 'gemma2', 'gemma3_text'; export a folder for "
            "transformers: '--format transformers'");
}

}  // namespace
}  // namespace accel::llama_gguf_test
