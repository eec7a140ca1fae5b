// Which family of transformers the options of a Llama are, and what its config.json says.
#include "models/llama_families.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "models/hf/hf_config.h"
#include "models/llama_options.h"

namespace accel::llama_families_test {
namespace {

using Json = nlohmann::json;
using llama_families::family_for;

/// A config with the keys that all families need, and more.
Json config_of(const std::string& type, const Json& more = Json::object()) {
  Json config = {{"model_type", type},
                 {"vocab_size", 11},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 2},
                 {"intermediate_size", 24},
                 {"num_key_value_heads", 1},
                 {"head_dim", 8},
                 {"max_position_embeddings", 32}};
  config.update(more);
  return config;
}

LlamaOptions read(const Json& json) {
  HfConfig config(json.dump(), "config.json");
  LlamaOptions options = llama_options_in(config);
  config.refuse_unknown_keys();
  for (const std::string& problem : config.problems()) ADD_FAILURE() << problem;
  return options;
}

std::string problem_in(const Json& json) {
  HfConfig config(json.dump(), "config.json");
  llama_options_in(config);
  return config.problems().empty() ? "" : config.problems().front();
}

Json written(const LlamaOptions& options, Json config = Json::object()) {
  write_llama_options(options, {{"model.embed_tokens.weight", {11, 16}}}, config);
  return config;
}

TEST(LlamaFamiliesTest, AConfigThatIsReadAndWrittenIsTheSame) {
  const Json types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  const Json rope = {{"rope_type", "default"}, {"rope_theta", 500.0}};
  const std::pair<const char*, Json> cases[] = {
      {"llama", {{"rope_parameters", rope}, {"attention_bias", true}}},
      {"mistral", {{"sliding_window", 7}}},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 7}, {"layer_types", types}}},
      {"qwen3", {{"use_sliding_window", false}, {"sliding_window", nullptr}}},
      {"phi3",
       {{"original_max_position_embeddings", 16},
        {"rope_parameters",
         {{"rope_type", "longrope"},
          {"rope_theta", 1e4},
          {"short_factor", {1, 2}},
          {"long_factor", {3, 4}},
          {"factor", 2.0},
          {"partial_rotary_factor", 0.5},
          {"original_max_position_embeddings", 16}}}}},
      {"smollm3", {{"no_rope_layers", {1, 1, 0, 1}}, {"use_sliding_window", false}}},
      {"gemma", {{"tie_word_embeddings", true}}},
      {"gemma2",
       {{"sliding_window", 5},
        {"layer_types", types},
        {"query_pre_attn_scalar", 20},
        {"attn_logit_softcapping", nullptr},
        {"final_logit_softcapping", 30.0}}},
      {"gemma3_text",
       {{"sliding_window", 5},
        {"layer_types", types},
        {"query_pre_attn_scalar", 8},
        {"rope_parameters",
         {{"full_attention", rope},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 20.0}}}}}}}};
  for (const auto& [type, more] : cases) {
    const Json config = config_of(type, more), out = written(read(config), config);
    for (const auto& [key, value] : config.items()) EXPECT_EQ(out[key], value) << type << key;
  }
}

TEST(LlamaFamiliesTest, MissingKeysHaveTheDefaultsOfTheFamily) {
  Json config = config_of("mistral");
  EXPECT_EQ(*read(config).sliding_window, 4096);
  config["sliding_window"] = nullptr;
  EXPECT_FALSE(read(config).sliding_window);
  const LlamaOptions gemma2 = read(config_of("gemma2"));
  EXPECT_TRUE(gemma2.slides(0));
  EXPECT_FALSE(gemma2.slides(1));
  EXPECT_EQ(*gemma2.attn_logit_softcapping, 50);
  EXPECT_EQ(*gemma2.final_logit_softcapping, 30);
  EXPECT_TRUE(gemma2.tie_embeddings);
  const LlamaOptions qwen2 = read(config_of(
      "qwen2", {{"use_sliding_window", true}, {"sliding_window", 4}, {"max_window_layers", 3}}));
  EXPECT_FALSE(qwen2.slides(2));
  EXPECT_TRUE(qwen2.slides(3));
  const LlamaOptions gemma3 = read(config_of("gemma3_text", {{"sliding_window_pattern", 2}}));
  EXPECT_TRUE(gemma3.slides(0));
  EXPECT_FALSE(gemma3.slides(1));
  EXPECT_EQ(*gemma3.local_rope_theta, 1e4);
  EXPECT_EQ(gemma3.rope.theta, 1e6);
  EXPECT_EQ(read(config_of("smollm3")).nope_layers, (std::vector<int64_t>{3}));
  EXPECT_EQ(read(config_of("smollm3")).rope.theta, 2e6);
}

TEST(LlamaFamiliesTest, GemmasActivationIsTheTanhForm) {
  for (const Json& more :
       {Json({{"hidden_act", "gelu"}}), Json::object(),
        Json({{"hidden_act", "gelu"}, {"hidden_activation", "gelu_pytorch_tanh"}})}) {
    EXPECT_EQ(read(config_of("gemma", more)).activation, HfActivation::kGeluTanh) << more;
  }
  EXPECT_EQ(read(config_of("gemma", {{"hidden_act", "relu"}})).activation, HfActivation::kRelu);
  EXPECT_EQ(problem_in(config_of("gemma", {{"hidden_activation", "relu"}})),
            "'config.json' has \"relu\" for 'hidden_activation', which differs from 'hidden_act'");
}

TEST(LlamaFamiliesTest, PaddingAndKeyHeadsHaveTheDefaultsOfTheFamily) {
  EXPECT_FALSE(read(config_of("llama")).pad);
  EXPECT_EQ(*read(config_of("llama", {{"pad_token_id", 2}})).pad, 2);
  EXPECT_EQ(*read(config_of("gemma2")).pad, 0);
  EXPECT_FALSE(read(config_of("gemma2", {{"pad_token_id", nullptr}})).pad);
  EXPECT_EQ(*read(config_of("phi3")).pad, 32000);
  Json config = config_of("qwen3_moe", {{"num_attention_heads", 8},
                                        {"num_experts", 2},
                                        {"num_experts_per_tok", 1},
                                        {"moe_intermediate_size", 4}});
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(*read(config).num_kv_heads, 8);
  config.erase("num_key_value_heads");
  EXPECT_EQ(*read(config).num_kv_heads, 4);
}

/// What writing a config of these options complains of.
std::string refusal_of(const std::string& type, LlamaOptions options) {
  try {
    write_llama_options(options,
                        {{"model.embed_tokens.weight", {11, 16}}, {"score.weight", {3, 16}}},
                        *std::make_unique<Json>(Json{{"model_type", type}}));
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

TEST(LlamaFamiliesTest, WhatTransformersWouldReadOtherwiseIsNotWritten) {
  LlamaOptions gemma = read(config_of("gemma"));
  gemma.activation = HfActivation::kGelu;
  EXPECT_EQ(
      refusal_of("gemma", gemma),
      "transformers' Gemma reads 'activation: gelu' as its approximation by tanh | train with "
      "'activation: gelu_new'");
  LlamaOptions gemma3 = read(config_of("gemma3_text"));
  gemma3.head = {EncoderHead::kLabels};
  EXPECT_EQ(
      refusal_of("gemma3_text", gemma3),
      "transformers' Gemma 3 has no class with a head for labels | train with 'head: classes' "
      "or 'head: tokens'");
  LlamaOptions phi3 = read(config_of("phi3"));
  phi3.rope.scaling = RopeScaling::kLinear;
  EXPECT_EQ(
      refusal_of("phi3", phi3),
      "transformers' Phi3 has no 'rope.scaling' but longrope | train with 'scaling: longrope', "
      "or without 'fused_projections'");
  LlamaOptions odd = read(config_of("llama"));
  odd.num_heads = 3;
  EXPECT_EQ(refusal_of("llama", odd),
            "transformers' Llama wants a 'hidden_size' that 'num_heads' divides: 16 and 3 | train "
            "with other sizes");
}

TEST(LlamaFamiliesTest, TheFamilyOfTheFolderIsKeptWhereItHasTheOptions) {
  const LlamaOptions plain = read(config_of("llama"));
  EXPECT_STREQ(family_for(plain, Json::object()).model_type, "llama");
  EXPECT_STREQ(family_for(plain, {{"model_type", "mistral"}}).model_type, "mistral");
  EXPECT_STREQ(family_for(plain, {{"model_type", "gemma"}}).model_type, "llama");
  LlamaOptions odd = plain;
  odd.sandwich_norms = odd.fused_projections = true;
  try {
    family_for(odd, Json::object());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "transformers has no model with these options together: "
                 "'sandwich_norms', 'fused_projections'");
  }
}

TEST(LlamaFamiliesTest, RefusesWhatTransformersOrTheModelDoesNotDo) {
  const Json partial = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(problem_in(config_of("llama", {{"rope_parameters", partial}})),
            "'config.json' rotates a part of each head ('partial_rotary_factor'), which "
            "transformers' Llama does not do");
  EXPECT_EQ(
      problem_in(config_of("gemma3_text",
                           {{"rope_parameters",
                             {{"sliding_attention", {{"rope_type", "linear"}, {"factor", 2}}}}}})),
      "'config.json' scales the rotary positions of 'sliding_attention', which this model "
      "does not do");
  EXPECT_EQ(problem_in(config_of("qwen2", {{"use_sliding_window", true},
                                           {"sliding_window", 4},
                                           {"layer_types", {"full_attention"}}})),
            "'config.json' has 1 'layer_types' for 4 layers");
  EXPECT_EQ(problem_in(config_of("smollm3", {{"no_rope_layers", {1, 0}}})),
            "'config.json' has 2 'no_rope_layers' for 4 layers");
  EXPECT_EQ(problem_in(config_of("phi3", {{"rope_scaling", {{"type", "su"}}}})),
            "'config.json' lacks 'short_factor' of longrope");
  const Json lists = {{"type", "longrope"}, {"short_factor", {"a"}}, {"long_factor", {1}}};
  EXPECT_EQ(problem_in(config_of("phi3", {{"rope_scaling", lists}})),
            "'config.json' has 'short_factor', which must be a list of numbers");
}

TEST(LlamaFamiliesTest, LayersWithAWindowWantOne) {
  const Json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  for (const char* type : {"qwen2", "qwen3", "smollm3", "qwen2_moe"}) {
    EXPECT_EQ(problem_in(config_of(type, {{"layer_types", types}, {"sliding_window", 5}})),
              "'config.json' has 'sliding_attention' in 'layer_types' without a window: "
              "'use_sliding_window' is false")
        << type;
  }
  EXPECT_EQ(problem_in(config_of("gemma2", {{"layer_types", types}, {"sliding_window", nullptr}})),
            "'config.json' has 'sliding_attention' in 'layer_types' without a window: "
            "'sliding_window' is null");
}

TEST(LlamaFamiliesTest, KeysOfTheFirstFoldersOfPhi3AndGemma2AreRead) {
  const Json code = {{"AutoConfig", "configuration_phi3.Phi3Config"},
                     {"AutoModelForCausalLM", "modeling_phi3.Phi3ForCausalLM"},
                     {"AutoTokenizer", "Xenova/gpt-4o"}};
  const Json phi4 =
      config_of("phi3", {{"auto_map", code}, {"full_attn_mod", 1}, {"interpolate_factor", 1}});
  EXPECT_FALSE(written(read(phi4), phi4).contains("auto_map"));
  EXPECT_EQ(problem_in(config_of("phi3", {{"auto_map", {{"AutoModel", "own.SparsePhi3"}}}})),
            "'config.json' has 'own.SparsePhi3' in 'auto_map', Python code, which is not run");
  EXPECT_EQ(problem_in(config_of("phi3", {{"full_attn_mod", 2}})),
            "'config.json' has 2 for 'full_attn_mod', which this model does not do");
  EXPECT_EQ(problem_in(config_of("phi3", {{"interpolate_factor", 3}})),
            "'config.json' has 3 for 'interpolate_factor', which this model does not do");

  const Json gemma2 =
      config_of("gemma2", {{"hidden_act", "gelu_pytorch_tanh"}, {"sliding_window_size", 4096}});
  EXPECT_EQ(read(gemma2).activation, HfActivation::kGeluTanh);
  EXPECT_EQ(problem_in(config_of("gemma2", {{"hidden_act", "silu"}})),
            "'config.json' has \"silu\" for 'hidden_act', which differs from 'hidden_activation'");
}

}  // namespace
}  // namespace accel::llama_families_test
