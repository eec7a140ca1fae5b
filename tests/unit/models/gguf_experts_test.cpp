// Mixtures of experts as models of llama.cpp's.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/text.h"
#include "models/llama_gguf_experts.h"
#include "models/llama_options.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/models/gguf_parts.h"

namespace accel::gguf_experts_test {
namespace {

using gguf_parts::numbered;
using gguf_parts::value;
using gguf_parts::values_of;

LlamaOptions mixture() {
  LlamaOptions options;
  options.num_layers = 1;
  options.num_heads = 2;
  options.hidden_size = 8;
  options.intermediate_size = {12};
  options.moe.num_experts = 4;
  options.moe.num_experts_per_tok = 3;
  return options;
}

LlamaOptions qwen2_mixture() {
  LlamaOptions options = mixture();
  options.moe.norm_topk_prob = false;
  options.moe.intermediate_size = {6};
  options.moe.shared_expert_intermediate_size = 10;
  return options;
}

GgufModel made(const LlamaOptions& options, const char* model_type,
               const std::vector<TensorSource>& weights = {}) {
  return llama_gguf(
      options, {{"model_type", model_type}, {"vocab_size", 11}, {"max_position_embeddings", 64}},
      weights);
}

bool has(const GgufModel& model, const std::string& key) {
  return std::any_of(model.fields.begin(), model.fields.end(),
                     [&](const GgufField& field) { return field.key == key; });
}

TEST(GgufExpertsTest, ExpertsOfALayerAreStackedByNumber) {
  std::vector<TensorSource> weights = {numbered("a.weight", {1})};
  for (const int number : {0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9}) {
    weights.push_back(
        numbered(text("l.experts.{}.up.weight", number), {1, 2}, static_cast<float>(10 * number)));
  }
  weights.push_back(numbered("b.weight", {1}));
  const std::vector<TensorSource> out = stacked_experts(weights);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[1].name, "l.experts.up.weight");
  EXPECT_EQ(out[1].shape, (Shape{11, 1, 2}));
  const std::vector<float> values = values_of(out[1]);
  for (size_t number = 0; number < 11; ++number) {
    EXPECT_EQ(values.at(2 * number), 10.0F * static_cast<float>(number));
    EXPECT_EQ(values.at(2 * number + 1), 10.0F * static_cast<float>(number) + 1);
  }
  EXPECT_EQ(out[2].name, "b.weight");
}

TEST(GgufExpertsTest, ExpertsThatDoNotFitAreABug) {
  EXPECT_THROW(stacked_experts({numbered("l.experts.1.up.weight", {2})}), std::invalid_argument);
  EXPECT_THROW(stacked_experts({numbered("l.experts.0.up.weight", {2}),
                                numbered("l.experts.1.up.weight", {3})}),
               std::invalid_argument);
}

TEST(GgufExpertsTest, MixtralIsALlamaWithExperts) {
  const GgufModel model =
      made(mixture(), "mixtral",
           {numbered("model.layers.0.block_sparse_moe.gate.weight", {4, 8}),
            numbered("model.layers.0.block_sparse_moe.experts.0.w1.weight", {12, 8}),
            numbered("model.layers.0.block_sparse_moe.experts.0.w2.weight", {8, 12}),
            numbered("model.layers.0.block_sparse_moe.experts.0.w3.weight", {12, 8})});
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(value<uint32_t>(model, "llama.expert_count"), 4U);
  EXPECT_EQ(value<uint32_t>(model, "llama.expert_used_count"), 3U);
  EXPECT_EQ(value<uint32_t>(model, "llama.feed_forward_length"), 12U);
  EXPECT_FALSE(has(model, "llama.expert_feed_forward_length"));
  std::vector<std::string> names;
  for (const TensorSource& tensor : model.tensors) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_exps.weight",
                                      "blk.0.ffn_down_exps.weight", "blk.0.ffn_up_exps.weight"}));
  EXPECT_EQ(model.exact, (std::set<std::string>{"blk.0.ffn_gate_inp.weight"}));
}

TEST(GgufExpertsTest, TheLengthOfMixtralsExpertsIsTheModels) {
  LlamaOptions options = mixture();
  options.moe.intermediate_size = {6};
  EXPECT_EQ(value<uint32_t>(made(options, "mixtral"), "llama.feed_forward_length"), 6U);
}

TEST(GgufExpertsTest, QwensExpertsHaveTheirOwnLengths) {
  const GgufModel two = made(qwen2_mixture(), "qwen2_moe");
  EXPECT_EQ(two.architecture, "qwen2moe");
  EXPECT_EQ(value<uint32_t>(two, "qwen2moe.expert_feed_forward_length"), 6U);
  EXPECT_EQ(value<uint32_t>(two, "qwen2moe.expert_shared_feed_forward_length"), 10U);
  EXPECT_EQ(value<uint32_t>(two, "qwen2moe.feed_forward_length"), 12U);
  LlamaOptions options = mixture();
  options.qk_norm = true;
  options.moe.intermediate_size = {6};
  const GgufModel three = made(options, "qwen3_moe");
  EXPECT_EQ(value<uint32_t>(three, "qwen3moe.expert_feed_forward_length"), 6U);
  EXPECT_EQ(value<uint32_t>(three, "qwen3moe.expert_count"), 4U);
  EXPECT_FALSE(has(three, "qwen3moe.expert_shared_feed_forward_length"));
}

TEST(GgufExpertsTest, Qwen2MoeHasAVectorForTheSharedExpertAndAHeadOfItsOwn) {
  const GgufModel model =
      made(qwen2_mixture(), "qwen2_moe",
           {numbered("model.embed_tokens.weight", {2, 2}),
            numbered("model.layers.0.mlp.shared_expert_gate.weight", {1, 3}),
            numbered("model.layers.0.mlp.shared_expert.up_proj.weight", {2, 2})});
  ASSERT_EQ(model.tensors.size(), 4U);
  EXPECT_EQ(model.tensors[0].name, "token_embd.weight");
  EXPECT_EQ(model.tensors[1].name, "output.weight");
  EXPECT_EQ(values_of(model.tensors[1]), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(model.tensors[2].name, "blk.0.ffn_gate_inp_shexp.weight");
  EXPECT_EQ(model.tensors[2].shape, (Shape{3}));
  EXPECT_EQ(model.tensors[2].read().shape(), (Shape{3}));
  EXPECT_EQ(values_of(model.tensors[2]), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(model.tensors[3].name, "blk.0.ffn_up_shexp.weight");
  const GgufModel untied =
      made(qwen2_mixture(), "qwen2_moe",
           {numbered("model.embed_tokens.weight", {2, 2}), numbered("lm_head.weight", {2, 2}, 5)});
  ASSERT_EQ(untied.tensors.size(), 2U);
  EXPECT_EQ(values_of(untied.tensors[1]).front(), 5);
}

/// The reason for which llama.cpp cannot have the model.
std::string refusal(const LlamaOptions& options, const char* model_type) {
  const std::string found = complaint([&] { made(options, model_type); });
  const std::string first = "llama.cpp's models lack what this model has: ";
  const std::string last = "\nexport a folder for transformers: '--format transformers'";
  if (!found.starts_with(first) || !found.ends_with(last)) return found;
  return found.substr(first.size(), found.size() - first.size() - last.size());
}

TEST(GgufExpertsTest, WhatLlamaCppsMixturesLackIsRefused) {
  constexpr auto kSparse =
      "layers without experts ('moe.decoder_sparse_step', 'moe.mlp_only_layers')";
  LlamaOptions options = mixture();
  options.moe.decoder_sparse_step = 2;
  EXPECT_EQ(refusal(options, "qwen3_moe"), kSparse);
  options = mixture();
  options.moe.mlp_only_layers = {0};
  EXPECT_EQ(refusal(options, "qwen3_moe"), kSparse);
  options = mixture();
  options.moe.norm_topk_prob = false;
  EXPECT_EQ(refusal(options, "qwen3_moe"), "'moe.norm_topk_prob: false' in qwen3_moe");
  EXPECT_EQ(refusal(options, "mixtral"), "'moe.norm_topk_prob: false' in mixtral");
  options = qwen2_mixture();
  options.moe.norm_topk_prob = true;
  EXPECT_EQ(refusal(options, "qwen2_moe"), "'moe.norm_topk_prob: true' in qwen2_moe");
  options = mixture();
  options.moe.bias_update_rate = 0.001;
  EXPECT_EQ(refusal(options, "mixtral"), "a bias of experts ('moe.bias_update_rate')");
  options = mixture();
  options.head_dim = {16};
  EXPECT_EQ(refusal(options, "qwen3_moe"), "");
  options = qwen2_mixture();
  options.head_dim = {16};
  EXPECT_EQ(refusal(options, "qwen2_moe"),
            "'head_dim' of 16 in qwen2moe, and 2 heads and 8 features");
}

}  // namespace
}  // namespace accel::gguf_experts_test
