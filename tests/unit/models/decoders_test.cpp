// GPT-NeoX and OPT: residuals, norms, padding and packed texts; what they and DeBERTa do not do.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/api/block.h"
#include "core/api/context_parallel.h"
#include "core/api/packed_sequences.h"
#include "core/api/tensor_parallel.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"

namespace accel::decoders_test {
namespace {

constexpr auto kNeox = "{type: gpt_neox, num_layers: 2, hidden_size: 16, num_heads: 2";
constexpr auto kOpt = "{type: opt, num_layers: 2, hidden_size: 16, num_heads: 2";

ModelContext texts(const Shape& target = {8}) {
  ModelContext context;
  context.data.input = {8};
  context.data.input_type = DType::kI64;
  context.data.vocab = 23;
  context.data.target = target;
  context.data.target_type = DType::kI64;
  context.data.classes = target.empty() ? 3 : 0;
  return context;
}

std::unique_ptr<Model> made(const std::string& options, const ModelContext& context = texts()) {
  at::manual_seed(5);
  auto model = build<Model>(options + "}", context);
  model->module().eval();
  // Large, so that a difference shows.
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->module().parameters()) parameter.mul_(10);
  return model;
}

at::Tensor some_tokens() {
  return at::arange(16).mul(7).remainder(23).view({2, 8});
}

std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> out;
  for (const Parameter& item : parameters_of(model)) out.push_back(item.name);
  return out;
}

TEST(DecodersTest, OptionsThatChangeTheComputationDo) {
  const at::Tensor tokens = some_tokens();
  for (const std::string base : {kNeox, kOpt}) {
    const at::Tensor wanted = made(base)->forward(tokens);
    const std::vector<std::string> others =
        base == kNeox ? std::vector<std::string>{"parallel_residual: false", "activation: relu",
                                                 "rope: {partial_rotary_factor: 1}",
                                                 "rope: {theta: 100, partial_rotary_factor: 0.5}"}
                      : std::vector<std::string>{"pre_norm: false", "final_norm: false",
                                                 "activation: gelu", "norm_affine: false"};
    for (const std::string& more : others) {
      EXPECT_FALSE(made(base + ", " + more)->forward(tokens).allclose(wanted)) << more;
    }
  }
}

TEST(DecodersTest, ARopeGivenInPartIsOtherwiseThatOfTheModel) {
  const at::Tensor tokens = some_tokens();
  const at::Tensor wanted = made(kNeox)->forward(tokens);
  EXPECT_TRUE(made(std::string(kNeox) + ", rope: {}")->forward(tokens).equal(wanted));
  EXPECT_TRUE(made(std::string(kNeox) + ", rope: {theta: 10000}")->forward(tokens).equal(wanted));
}

TEST(DecodersTest, TokensToTheRightChangeNothing) {
  for (const std::string base : {kNeox, kOpt}) {
    const auto model = made(base);
    at::Tensor tokens = some_tokens();
    const at::Tensor before = model->forward(tokens).narrow(1, 0, 5);
    tokens.narrow(1, 5, 3).fill_(4);
    EXPECT_TRUE(model->forward(tokens).narrow(1, 0, 5).allclose(before, 1e-5, 1e-6));
  }
}

TEST(DecodersTest, PackedTextsAreApart) {
  for (const std::string base : {kNeox, kOpt}) {
    const auto model = made(base);
    const at::Tensor tokens = some_tokens().narrow(0, 0, 1);
    const at::Tensor segments = at::tensor({0, 0, 0, 1, 1, 1, 1, 1}, at::kLong).view({1, 8});
    const at::Tensor packed =
        dynamic_cast<PackedSequences&>(*model).forward_packed(tokens, segments);
    auto& language = dynamic_cast<LanguageModel&>(*model);
    const at::Tensor apart = at::cat(
        {language.hidden(tokens.narrow(1, 0, 3)), language.hidden(tokens.narrow(1, 3, 5))}, 1);
    EXPECT_TRUE(packed.allclose(apart, 1e-4, 1e-5));
  }
}

TEST(DecodersTest, ParametersHaveTransformersNames) {
  EXPECT_EQ(
      names_of(*made("{type: gpt_neox, num_layers: 1, hidden_size: 16, num_heads: 2, "
                     "attention_bias: false")),
      (std::vector<std::string>{
          "gpt_neox.embed_in.weight", "gpt_neox.layers.0.input_layernorm.weight",
          "gpt_neox.layers.0.input_layernorm.bias",
          "gpt_neox.layers.0.post_attention_layernorm.weight",
          "gpt_neox.layers.0.post_attention_layernorm.bias",
          "gpt_neox.layers.0.attention.query_key_value.weight",
          "gpt_neox.layers.0.attention.dense.weight", "gpt_neox.layers.0.mlp.dense_h_to_4h.weight",
          "gpt_neox.layers.0.mlp.dense_h_to_4h.bias", "gpt_neox.layers.0.mlp.dense_4h_to_h.weight",
          "gpt_neox.layers.0.mlp.dense_4h_to_h.bias", "gpt_neox.final_layer_norm.weight",
          "gpt_neox.final_layer_norm.bias", "lm_head.weight"}));
  EXPECT_EQ(
      names_of(*made("{type: opt, num_layers: 1, hidden_size: 16, num_heads: 2, bias: false, "
                     "norm_affine: false, embedding_size: 8")),
      (std::vector<std::string>{
          "model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight",
          "model.decoder.project_in.weight", "model.decoder.layers.0.self_attn.k_proj.weight",
          "model.decoder.layers.0.self_attn.v_proj.weight",
          "model.decoder.layers.0.self_attn.q_proj.weight",
          "model.decoder.layers.0.self_attn.out_proj.weight", "model.decoder.layers.0.fc1.weight",
          "model.decoder.layers.0.fc2.weight", "model.decoder.project_out.weight"}));
}

TEST(DecodersTest, ThePaddingOfOptIsNotTrained) {
  const auto model = made(std::string(kOpt) + ", pad: 0, tie_embeddings: false");
  model->forward(some_tokens()).sum().backward();
  const at::Tensor gradient = parameters_of(*model)[0].local.grad();
  EXPECT_EQ(gradient[0].abs().max().item<float>(), 0);
  EXPECT_GT(gradient[7].abs().max().item<float>(), 0);
  EXPECT_EQ(complaint<Model>(std::string(kOpt) + ", pad: 23}", texts()),
            "'pad' of the model 'opt' is 23, but token ids are below 23");
}

TEST(DecodersTest, WhatTheyCannotDoIsRefused) {
  const auto expect_problem = [](const std::string& options, const std::string& problem) {
    const std::string found = complaint<Model>(options + "}", texts());
    EXPECT_NE(found.find("error: " + problem + "\n"), found.npos) << found;
  };
  expect_problem(std::string(kOpt) + ", head: labels, num_classes: 3",
                 "'opt' has no 'head: labels', as in transformers");
  expect_problem(std::string(kOpt) + ", pre_norm: false, final_norm: false",
                 "'final_norm' has no effect with 'pre_norm: false', which ends without one");
  expect_problem(std::string(kNeox) + ", pad: 1", "'pad' has no effect without a head for classes");
  expect_problem(std::string(kNeox) + ", rope: {scaling: dynamic, factor: 2}",
                 "'gpt_neox' does not support 'rope.scaling' dynamic and longrope");
  expect_problem(std::string(kNeox) + ", rope: {partial_rotary_factor: 0.4}",
                 "the rotated part of a head must be even and more than 0, not 3 of 8");
  expect_problem("{type: deberta, relative: {buckets: 2}", "'buckets' must be 0 or at least 4");
  expect_problem(
      "{type: deberta, relative: {content_to_position: false, position_to_content: false, "
      "share_projections: false}",
      "'share_projections' has no effect without a term of positions");
  const auto classes = made(std::string(kNeox) + ", num_classes: 3", texts({}));
  const auto refusal = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { dynamic_cast<TensorParallel&>(*classes).tensor_plan(2); }),
            "the head 'score' of gpt_neox does not support 'tp'");
  EXPECT_EQ(refusal([&] { dynamic_cast<BlockChain&>(*classes).chain(); }),
            "the head 'score' of gpt_neox does not support 'pp'");
  const auto deberta = made("{type: deberta, num_layers: 1, hidden_size: 16, num_heads: 2");
  EXPECT_EQ(refusal([&] { dynamic_cast<BlockChain&>(*deberta).chain(); }),
            "'pp' does not support deberta");
  EXPECT_EQ(refusal([&] { dynamic_cast<ContextParallel&>(*deberta).divide_sequences(nullptr); }),
            "'cp' and 'sp' do not support deberta");
  ModelContext rows = texts({});
  rows.data.segments = 65;
  rows.data.target = rows.data.input;
  const auto packed =
      build<Model>("{type: bert, num_layers: 1, hidden_size: 16, num_heads: 2}", rows);
  EXPECT_EQ(refusal([&] { dynamic_cast<ContextParallel&>(*packed).divide_sequences(nullptr); }),
            "'cp' and 'sp' do not support packed texts of encoders");
  const auto opt = made(kOpt);
  EXPECT_EQ(refusal([&] { dynamic_cast<TensorParallel&>(*opt).tensor_plan(3); }),
            "'tp' 3 does not divide the model's 'num_heads' 2");
}

}  // namespace
}  // namespace accel::decoders_test
