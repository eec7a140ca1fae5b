// ModernBERT: padding, windows, pooling, and the head for each kind of targets.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "models/hf/hf_config.h"
#include "models/modernbert_options.h"
#include "tests/unit/build_component.h"

namespace accel::modernbert_test {
namespace {

constexpr int64_t kLength = 12, kVocab = 23;

ModelContext texts(Shape target = {}, int64_t classes = 3) {
  ModelContext context;
  context.data = {.input = {kLength},
                  .input_type = DType::kI64,
                  .target = std::move(target),
                  .classes = classes,
                  .vocab = kVocab};
  return context;
}

std::unique_ptr<Model> small(const std::string& more, const ModelContext& context = texts()) {
  auto model = build<Model>(
      "{type: modernbert, num_layers: 2, num_heads: 2, hidden_size: 16" + more + "}", context);
  model->module().eval();
  // Large, so that a far token changes the output by more than rounding.
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->module().parameters()) {
    if (parameter.dim() == 2) parameter.normal_(0, 0.4);
  }
  return model;
}

at::Tensor output(Model& model, const at::Tensor& tokens, const at::Tensor& lengths = {}) {
  const at::NoGradGuard no_grad;
  Batch batch;
  batch.inputs = tokens;
  batch.lengths = lengths;
  return model.forward_batch(batch);
}

at::Tensor some_tokens() {
  return at::randint(1, kVocab, {2, kLength}, at::TensorOptions().dtype(at::kLong));
}

TEST(ModernBertTest, PaddingChangesNothing) {
  for (const char* options : {"", ", local_attention: 2", ", pooling: mean"}) {
    const auto model = small(options);
    const at::Tensor tokens = some_tokens(), lengths = at::tensor({12, 5}, at::kLong);
    at::Tensor changed = tokens.clone();
    changed.select(0, 1).slice(0, 5).fill_(7);
    const at::Tensor before = output(*model, tokens, lengths);
    EXPECT_TRUE(output(*model, changed, lengths).equal(before)) << options;
    EXPECT_TRUE(before.isfinite().all().item<bool>()) << options;
    // As a shorter text, which has no padding.
    const at::Tensor alone = output(*model, tokens.narrow(0, 1, 1).narrow(1, 0, 5));
    EXPECT_TRUE(alone[0].allclose(before[1], 1e-5, 1e-6)) << options;
    EXPECT_FALSE(output(*model, changed)[1].allclose(output(*model, tokens)[1])) << options;
  }
}

TEST(ModernBertTest, AWindowReachesHalfOfItOnEachSideInEachLayer) {
  const ModelContext context = texts({kLength}, 0);
  const auto changes = [&](const std::string& options, int64_t token) {
    const auto model = small(options, context);
    const at::Tensor tokens = some_tokens();
    at::Tensor changed = tokens.clone();
    changed.select(1, token).add_(1).remainder_(kVocab);
    return !output(*model, tokens).select(1, 0).allclose(output(*model, changed).select(1, 0));
  };
  const std::string both = ", layer_types: [sliding_attention], local_attention: ";
  EXPECT_TRUE(changes(both + "4", 4));
  EXPECT_FALSE(changes(both + "4", 5));
  EXPECT_TRUE(changes(both + "6", 6));
  EXPECT_FALSE(changes(both + "6", 7));
  // The first layer has no window.
  EXPECT_TRUE(changes(", local_attention: 4", 11));
}

TEST(ModernBertTest, TheHeadFollowsTheTargets) {
  EXPECT_STREQ(small("")->default_task(), "classification");
  EXPECT_STREQ(small("", texts({kLength}))->default_task(), "token_classification");
  EXPECT_STREQ(small("", texts({kLength}, 0))->default_task(), "masked_lm");
  const auto answers = small("", texts({1, 2}, 0));
  EXPECT_STREQ(answers->default_task(), "question_answering");
  EXPECT_EQ(output(*answers, some_tokens()).sizes(), (std::vector<int64_t>{2, kLength, 2}));
  EXPECT_EQ(output(*small("", texts({kLength}, 0)), some_tokens()).size(2), kVocab);
}

/// The first problem of a config with these keys.
std::string problem_of(const nlohmann::json& more) {
  nlohmann::json config = {{"model_type", "modernbert"}, {"vocab_size", kVocab},
                           {"hidden_size", 16},          {"num_hidden_layers", 2},
                           {"num_attention_heads", 2},   {"intermediate_size", 24}};
  config.update(more);
  HfConfig read(config.dump(), "config.json");
  ModernBertOptions::from_config(read);
  return read.problems().empty() ? "" : read.problems().front();
}

TEST(ModernBertTest, WhatTransformersWouldNotComputeIsRefused) {
  EXPECT_EQ(problem_of(nlohmann::json::object()), "");
  EXPECT_EQ(problem_of({{"layer_types", {"chunked_attention", "full_attention"}}}),
            "'config.json' has 'chunked_attention' in 'layer_types', which this model does not do");
  EXPECT_EQ(problem_of({{"layer_types", {"full_attention"}}}),
            "'config.json' has 1 'layer_types' for 2 layers");
  EXPECT_EQ(problem_of({{"classifier_pooling", "max"}}),
            "'config.json' has 'max' for 'classifier_pooling', which this model does not do");
  EXPECT_EQ(
      problem_of({{"rope_parameters", {{"full_attention", {{"partial_rotary_factor", 0.5}}}}}}),
      "'config.json' rotates a part of each head ('partial_rotary_factor'), which transformers' "
      "ModernBert does not do");
}

TEST(ModernBertTest, ThePaddingTokenIsNotTrained) {
  const auto model = build<Model>(
      "{type: modernbert, num_layers: 2, num_heads: 2, hidden_size: 16, pad: 0}", texts());
  Batch batch;
  batch.inputs = some_tokens();
  batch.inputs.select(1, 3).zero_();
  model->forward_batch(batch).sum().backward();
  const at::Tensor table =
      model->module().named_parameters()["model.embeddings.tok_embeddings.weight"];
  EXPECT_EQ(table[0].abs().sum().item<double>(), 0);
  EXPECT_EQ(table.grad()[0].abs().sum().item<double>(), 0);
  EXPECT_GT(table.grad()[batch.inputs[0][0].item<int64_t>()].abs().sum().item<double>(), 0);
  EXPECT_EQ(complaint<Model>("{type: modernbert, pad: 23}", texts()),
            "'pad' of the model 'modernbert' is 23, but token ids are below 23");
}

}  // namespace
}  // namespace accel::modernbert_test
