// GPT-2 as a model of llama.cpp's.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/gpt_options.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/models/gguf_parts.h"

namespace accel::gpt_gguf_test {
namespace {

using gguf_parts::numbered;
using gguf_parts::value;
using gguf_parts::values_of;

const nlohmann::json kConfig = {{"vocab_size", 11}, {"n_positions", 64}};

GptOptions small_gpt() {
  GptOptions options;
  options.num_layers = 2;
  options.num_heads = 2;
  options.hidden_size = 8;
  return options;
}

TEST(GptGgufTest, SizesAreMetadata) {
  const GgufModel model = gpt_gguf(small_gpt(), kConfig, {});
  EXPECT_EQ(model.architecture, "gpt2");
  const std::pair<const char*, uint32_t> sizes[] = {
      {"vocab_size", 11}, {"context_length", 64},      {"embedding_length", 8},
      {"block_count", 2}, {"feed_forward_length", 32}, {"attention.head_count", 2}};
  for (const auto& [key, size] : sizes) {
    EXPECT_EQ(value<uint32_t>(model, std::string("gpt2.") + key), size) << key;
  }
  EXPECT_EQ(value<float>(model, "gpt2.attention.layer_norm_epsilon"), 1e-5F);
  EXPECT_EQ(model.fields.size(), 7U);
}

TEST(GptGgufTest, TensorsHaveLlamaCppsNamesAndTheirOwnValues) {
  const std::pair<const char*, const char*> cases[] = {
      {"transformer.wte.weight", "token_embd.weight"},
      {"transformer.wpe.weight", "position_embd.weight"},
      {"transformer.ln_f.bias", "output_norm.bias"},
      {"lm_head.weight", "output.weight"},
      {"transformer.h.12.ln_1.weight", "blk.12.attn_norm.weight"},
      {"transformer.h.0.attn.c_attn.weight", "blk.0.attn_qkv.weight"},
      {"transformer.h.0.attn.c_proj.bias", "blk.0.attn_output.bias"},
      {"transformer.h.0.ln_2.bias", "blk.0.ffn_norm.bias"},
      {"transformer.h.0.mlp.c_fc.weight", "blk.0.ffn_up.weight"},
      {"transformer.h.0.mlp.c_proj.weight", "blk.0.ffn_down.weight"}};
  for (const auto& [theirs, ours] : cases) {
    const GgufModel model = gpt_gguf(small_gpt(), kConfig, {numbered(theirs, {3, 2})});
    EXPECT_EQ(model.tensors.at(0).name, ours);
    EXPECT_EQ(values_of(model.tensors.at(0)), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(model.exact, (std::set<std::string>{"position_embd.weight"}));
  }
}

TEST(GptGgufTest, WhatLlamaCppsGpt2LacksIsRefused) {
  const auto refusal = [](const GptOptions& options, const std::vector<TensorSource>& weights) {
    return complaint([&] { gpt_gguf(options, kConfig, weights); });
  };
  GptOptions options = small_gpt();
  options.activation = HfActivation::kGelu;
  EXPECT_EQ(refusal(options, {}),
            "llama.cpp's models lack what this model has: 'activation' other than that of gpt2\n"
            "export a folder for transformers: '--format transformers'");
  options = small_gpt();
  options.num_classes = {3};
  EXPECT_EQ(refusal(options, {}),
            "llama.cpp's models lack what this model has: a head in place of the language model's\n"
            "export a folder for transformers: '--format transformers'");
  EXPECT_EQ(refusal(small_gpt(), {numbered("transformer.h.0.other.weight", {2})}),
            "llama.cpp's models lack what this model has: the weight "
            "'transformer.h.0.other.weight'\n"
            "export a folder for transformers: '--format transformers'");
}

}  // namespace
}  // namespace accel::gpt_gguf_test
