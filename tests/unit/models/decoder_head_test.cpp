// Heads of decoders for outputs of texts, labels of tokens and spans.
#include "models/decoder_head.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/api/block.h"
#include "core/base/error.h"
#include "models/layers/module_state.h"
#include "models/llama_options.h"
#include "tests/unit/build_component.h"

namespace accel::decoder_head_test {
namespace {

constexpr auto kGpt = "{type: gpt, num_layers: 1, hidden_size: 8, num_heads: 2";
constexpr auto kLlama = "{type: llama, num_layers: 1, hidden_size: 8, num_heads: 2";

ModelContext texts(const Shape& target, DType type, int64_t classes) {
  ModelContext context;
  context.data.input = {6};
  context.data.input_type = DType::kI64;
  context.data.vocab = 7;
  context.data.target = target;
  context.data.target_type = type;
  context.data.classes = classes;
  return context;
}

const ModelContext kClasses = texts({}, DType::kI64, 3);
const ModelContext kLabels = texts({6}, DType::kI64, 3);
const ModelContext kSpans = texts({1, 2}, DType::kI64, 0);

std::vector<std::string> head_of(Model& model) {
  std::vector<std::string> out;
  for (const Parameter& item : parameters_of(model)) {
    if (item.name.find("transformer.") != 0 && item.name.find("model.") != 0)
      out.push_back(item.name);
  }
  return out;
}

using Names = std::vector<std::string>;

TEST(DecoderHeadTest, AFoldersPaddingAndLoadBalanceFollowTheRecipesHead) {
  LlamaOptions recipe, folder;
  folder.pad = {2};
  folder.router_aux_loss_coef = {0.02};
  LlamaOptions language = folder;
  fit_folder_to_head(recipe, language);
  EXPECT_EQ(*language.pad, 2);  // of the embedding
  EXPECT_EQ(*language.router_aux_loss_coef, 0.02);
  recipe.num_classes = {1};
  fit_folder_to_head(recipe, folder);
  EXPECT_EQ(*folder.pad, 2);
  EXPECT_EQ(*folder.router_aux_loss_coef, 0.0);
}

TEST(DecoderHeadTest, GptHasTransformersHeads) {
  const at::Tensor tokens = at::arange(12).remainder(7).view({2, 6});
  const auto classes = build<Model>(kGpt + std::string(", num_classes: 3}"), kClasses);
  EXPECT_EQ(head_of(*classes), Names{"score.weight"});
  EXPECT_EQ(classes->forward(tokens).sizes().vec(), (Shape{2, 3}));
  EXPECT_STREQ(classes->default_task(), "classification");
  const auto labels = build<Model>(kGpt + std::string(", head: labels, num_classes: 3}"), kLabels);
  EXPECT_EQ(head_of(*labels), (Names{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(labels->forward(tokens).sizes().vec(), (Shape{2, 6, 3}));
  EXPECT_STREQ(labels->default_task(), "token_classification");
  const auto spans = build<Model>(kGpt + std::string(", head: span}"), kSpans);
  EXPECT_EQ(head_of(*spans), (Names{"qa_outputs.weight", "qa_outputs.bias"}));
  EXPECT_EQ(spans->forward(tokens).sizes().vec(), (Shape{2, 6, 2}));
  EXPECT_STREQ(spans->default_task(), "question_answering");
  EXPECT_STREQ(build<Model>(kGpt + std::string("}"), kClasses)->default_task(), "causal_lm");
}

TEST(DecoderHeadTest, OutputsOfATextAreThoseOfItsLastToken) {
  for (const char* kind : {kGpt, kLlama}) {
    const auto model = build<Model>(kind + std::string(", num_classes: 3}"), kClasses);
    Batch batch;
    batch.inputs = at::arange(12).remainder(7).view({2, 6});
    batch.lengths = at::tensor({4, 6});
    const at::Tensor outputs = model->forward_batch(batch);
    const at::Tensor cut = model->forward(batch.inputs.narrow(0, 0, 1).narrow(1, 0, 4));
    EXPECT_LT(outputs[0].sub(cut[0]).abs().max().item<double>(), 1e-6) << kind;
    EXPECT_TRUE(outputs[1].equal(model->forward(batch.inputs)[1])) << kind;
  }
}

/// transformers' GenericForSequenceClassification.
TEST(DecoderHeadTest, PaddingIsSkippedByItsId) {
  DecoderHead head = {"gpt", EncoderHead::kClasses, {3}, {}, {}, 0};
  Batch batch = {at::tensor({5, 6, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0}).view({3, 4}), {}, {}};
  const auto positions = [&] {
    const at::Tensor found = head.pooled_positions(batch);
    return std::vector<int64_t>(found.data_ptr<int64_t>(), found.data_ptr<int64_t>() + 3);
  };
  EXPECT_EQ(positions(), (std::vector<int64_t>{3, 3, 3}));
  head.pad = {0};
  EXPECT_EQ(positions(), (std::vector<int64_t>{1, 2, 0}));
  batch.lengths = at::tensor({1, 2, 4});
  EXPECT_EQ(positions(), (std::vector<int64_t>{0, 0, 0}));
  head.pad = {};
  EXPECT_EQ(positions(), (std::vector<int64_t>{0, 1, 3}));
}

TEST(DecoderHeadTest, DropoutBeforeLabelsIsOfTrainingOnly) {
  for (const char* kind : {kGpt, kLlama}) {
    const auto model = build<Model>(
        kind + std::string(", head: labels, num_classes: 3, head_dropout: 0.5}"), kLabels);
    const at::Tensor tokens = at::arange(6).view({1, 6});
    EXPECT_FALSE(model->forward(tokens).equal(model->forward(tokens))) << kind;
    model->module().eval();
    EXPECT_TRUE(model->forward(tokens).equal(model->forward(tokens))) << kind;
  }
}

TEST(DecoderHeadTest, TheTaskFollowsProblemType) {
  const ModelContext numbers = texts({3}, DType::kF32, 0);
  const auto task = [&](const char* kind, const std::string& more) {
    return std::string(build<Model>(kind + more, numbers)->default_task());
  };
  for (const char* kind : {kGpt, kLlama}) {
    EXPECT_EQ(task(kind, ", num_classes: 3}"), "multi_label_classification") << kind;
    EXPECT_EQ(task(kind, ", num_classes: 3, problem_type: regression}"), "regression") << kind;
  }
}

TEST(DecoderHeadTest, WhatAHeadCannotDoIsRefused) {
  const auto gpt = [](const std::string& more, const ModelContext& context) {
    return complaint<Model>(kGpt + more, context);
  };
  EXPECT_NE(gpt(", head: span, num_classes: 2}", kSpans)
                .find("'num_classes' has no effect with 'head: span'"),
            std::string::npos);
  EXPECT_NE(gpt(", head: tokens, num_classes: 2}", kSpans)
                .find("'num_classes' has no effect with 'head: tokens'"),
            std::string::npos);
  EXPECT_NE(gpt(", pad: 0}", kClasses).find("'pad' has no effect without a head for classes"),
            std::string::npos);
  const auto model = build<Model>(kGpt + std::string(", num_classes: 3}"), kClasses);
  const auto refusal = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { dynamic_cast<BlockChain&>(*model).chain(); }),
            "the head 'score' of gpt does not support 'pp'");
  EXPECT_EQ(refusal([&] { dynamic_cast<TensorParallel&>(*model).tensor_plan(2); }),
            "the head 'score' of gpt does not support 'tp'");
  EXPECT_EQ(refusal([&] { dynamic_cast<LanguageModel&>(*model).head_weight(); }),
            "this gpt has the head 'score' and no logits of tokens");
  EXPECT_FALSE(dynamic_cast<BlockChain&>(*model).tied_weight().defined());
  const auto llama = build<Model>(kLlama + std::string(", head: span}"), kSpans);
  EXPECT_EQ(refusal([&] { dynamic_cast<BlockChain&>(*llama).chain(); }),
            "'pp' does not support 'head: span' of llama");
  EXPECT_EQ(refusal([&] { dynamic_cast<TensorParallel&>(*llama).tensor_plan(2); }),
            "'tp' does not support 'head: span' of llama");
  EXPECT_EQ(refusal([&] { dynamic_cast<LanguageModel&>(*llama).head_weight(); }),
            "this llama has another head ('head: span') and no logits of tokens");
  EXPECT_FALSE(dynamic_cast<BlockChain&>(*llama).tied_weight().defined());
  EXPECT_NE(complaint<Model>(kLlama + std::string(", head: span, sandwich_norms: true}"), kSpans)
                .find("the model 'llama' with these options has no head for a span, as in "
                      "transformers"),
            std::string::npos);
}

TEST(DecoderHeadTest, LlamaHasAHeadForSpans) {
  const auto model = build<Model>(kLlama + std::string(", head: span}"), kSpans);
  EXPECT_EQ(head_of(*model), (Names{"qa_outputs.weight", "qa_outputs.bias"}));
  EXPECT_EQ(model->forward(at::arange(12).remainder(7).view({2, 6})).sizes().vec(),
            (Shape{2, 6, 2}));
  EXPECT_STREQ(model->default_task(), "question_answering");
}

}  // namespace
}  // namespace accel::decoder_head_test
