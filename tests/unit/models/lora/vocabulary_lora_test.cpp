// LoRA of embeddings and heads: selection by patterns, outputs, refusals.
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/api/model.h"
#include "core/base/error.h"
#include "kernels/choice.h"
#include "models/lora/adapters_off.h"
#include "models/lora/lora.h"
#include "models/lora/lora_folder.h"
#include "tests/unit/build_component.h"
#include "tests/unit/models/lora/trained_parameters.h"

namespace accel::vocabulary_lora_test {
namespace {

constexpr auto kGpt = "{type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2, lora: {";
constexpr auto kLlama = "{type: llama, num_layers: 1, hidden_size: 8, num_heads: 2, ";

TEST(VocabularyLoraTest, PatternsThatEndWithTheNameSelectEmbeddingsAndTheHead) {
  const std::string head = "lm_head.lora_A.weight lm_head.lora_B.weight";
  const std::string wte = "transformer.wte.lora_embedding_A transformer.wte.lora_embedding_B";
  const auto gpt = [](const std::string& targets) {
    return trained_parameters(
        *build<Model>(kGpt + ("rank: 2, target_modules: [" + targets + "]}}"), five_tokens()));
  };
  EXPECT_EQ(gpt("lm_head"), head);
  EXPECT_EQ(gpt("'*wte'"), wte);
  EXPECT_EQ(gpt("transformer.wte, '*lm_head'").find(wte), 0u);
  const std::string all = gpt("'*'");
  EXPECT_EQ(all.find("lm_head"), all.npos);
  EXPECT_EQ(all.find("lora_embedding"), all.npos);
  EXPECT_EQ(
      complaint<Model>(kGpt + std::string("rank: 2, target_modules: ['*wt*']}}"), five_tokens())
          .find("'*wt*' matches no linear layer"),
      std::string("recipe.yaml:1:90: error: ").size());
}

/// The output of a model equals that of one whose weights have the products.
TEST(VocabularyLoraTest, TheOutputIsThatOfMergedWeights) {
  const at::Tensor batch = at::arange(5).view({1, 5});
  const std::string lora = "lora: {rank: 3, alpha: 6, target_modules: ['*embed_tokens', lm_head]}}";
  for (const char* tied : {"tie_embeddings: true, ", "tie_embeddings: false, "}) {
    const auto model = build<Model>(kLlama + std::string(tied) + lora, five_tokens());
    auto& language = dynamic_cast<LanguageModel&>(*model);
    const auto without = [&] {
      const AdaptersOff off;
      return model->forward(batch).detach().clone();
    };
    const at::Tensor fresh = without();
    // An adapter of zeros lengthens the head's sums, whose order depends on the processor.
    EXPECT_LT(model->forward(batch).sub(fresh).abs().max().item<double>(), 1e-6) << tied;
    const at::Tensor a = parameter_named(*model, "model.embed_tokens.lora_embedding_A");
    const at::Tensor b = parameter_named(*model, "model.embed_tokens.lora_embedding_B");
    EXPECT_EQ(a.sizes().vec(), (Shape{3, 7}));
    EXPECT_EQ(b.sizes().vec(), (Shape{8, 3}));
    EXPECT_TRUE(a.eq(0).all().item<bool>());
    a.normal_();
    const at::Tensor up = parameter_named(*model, "lm_head.lora_B.weight");
    const at::Tensor down = parameter_named(*model, "lm_head.lora_A.weight");
    EXPECT_TRUE(up.eq(0).all().item<bool>());
    up.normal_();
    const at::Tensor with = model->forward(batch).detach().clone();
    EXPECT_TRUE(at::linear(language.hidden(batch), language.head_weight()).equal(with));
    EXPECT_TRUE(without().equal(fresh));
    const at::Tensor table = parameter_named(*model, "model.embed_tokens.weight");
    const bool is_tied = std::string(tied).find("true") != std::string::npos;
    const at::Tensor head = (is_tied ? table : parameter_named(*model, "lm_head.weight")).clone();
    table.add_(a.t().mm(b.t()).mul(2));
    a.zero_();
    const at::Tensor merged_head = head.add(up.mm(down).mul(2));
    up.zero_();
    const at::Tensor hidden = language.hidden(batch).narrow(-1, 0, 8);
    const at::Tensor merged = at::linear(hidden, merged_head);
    EXPECT_LT(merged.sub(with).abs().max().item<double>(), 1e-5) << tied;
    EXPECT_GT(fresh.sub(with).abs().max().item<double>(), 1e-2) << tied;
  }
}

TEST(VocabularyLoraTest, GradientsReachBothMatricesAndNotTheTable) {
  const auto model = build<Model>(
      kGpt + std::string("rank: 2, target_modules: ['*wte', '*wpe', lm_head]}}"), five_tokens());
  parameter_named(*model, "lm_head.lora_B.weight").normal_();
  parameter_named(*model, "transformer.wte.lora_embedding_A").normal_();
  parameter_named(*model, "transformer.wpe.lora_embedding_A").normal_();
  model->forward(at::arange(5).view({1, 5})).square().sum().backward();
  for (const Parameter& item : parameters_of(*model)) {
    const bool has_gradient =
        item.local.grad().defined() && item.local.grad().ne(0).any().item<bool>();
    EXPECT_EQ(has_gradient, is_of_adapter(item.name)) << item.name;
  }
  EXPECT_TRUE(has_adapter_switch(*model));
}

TEST(VocabularyLoraTest, DropoutOfTheHeadIsOfTrainingOnly) {
  const auto model = build<Model>(
      kGpt + std::string("rank: 2, dropout: 0.5, target_modules: lm_head}}"), five_tokens());
  parameter_named(*model, "lm_head.lora_B.weight").normal_();
  const at::Tensor batch = at::arange(5).view({1, 5});
  EXPECT_FALSE(model->forward(batch).equal(model->forward(batch)));
  model->module().eval();
  EXPECT_TRUE(model->forward(batch).equal(model->forward(batch)));
}

TEST(VocabularyLoraTest, VariantsOfLinearLayersAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"dora: true, target_modules: '*wte'", "'lora.dora' does not support embeddings"},
      {"lora_bias: true, target_modules: '*wpe'", "'lora.lora_bias' does not support embeddings"},
      {"dora: true, target_modules: lm_head",
       "'lora.dora' does not support the head of a language model"},
      {"init: pissa, target_modules: lm_head",
       "'lora.init' pissa and olora would change the embedding that the head is tied to"}};
  for (const auto& [options, message] : cases) {
    EXPECT_EQ(complaint<Model>(kGpt + ("rank: 2, " + std::string(options)) + "}}", five_tokens()),
              message);
  }
  EXPECT_EQ(
      complaint<Model>(kLlama + std::string("tie_embeddings: false, lora: {rank: 2, dora: true, "
                                            "target_modules: lm_head}}"),
                       five_tokens()),
      "'lora.dora' does not support the head of a language model");
}

TEST(VocabularyLoraTest, ATiedHeadIsTrainedWithItsTableOrNotAtAll) {
  const auto message = [](const std::string& options) {
    return complaint<Model>(kLlama + options, five_tokens());
  };
  const std::string saved = "lora: {rank: 1, target_modules: '*q_proj', modules_to_save: ";
  for (const char* patterns : {"['*lm_head.*']", "['*embed_tokens.*', '*lm_head.*']"}) {
    const std::string found = message("tie_embeddings: true, " + saved + patterns + "}}");
    EXPECT_NE(found.find("error: '*lm_head.*' has no weight to train: 'lm_head' is tied to "
                         "'model.embed_tokens.weight'\n"),
              found.npos)
        << found;
    EXPECT_NE(found.find("  hint: list 'model.embed_tokens.weight' in place of it, which trains "
                         "both, as PEFT with 'ensure_weight_tying'; a copy of the head that is "
                         "trained alone, as PEFT's without it, is not supported\n"),
              found.npos)
        << found;
  }
  EXPECT_EQ(message("tie_embeddings: false, " + saved + "['*lm_head.*']}}"), "");
  EXPECT_EQ(message("tie_embeddings: true, " + saved + "['*embed_tokens.*']}}"), "");
  EXPECT_NE(message("tie_embeddings: true, " + saved + "['*lm_heat.*']}}")
                .find("'*lm_heat.*' matches no parameter"),
            std::string::npos);
}

TEST(VocabularyLoraTest, AnAdapterThatUntiesTheHeadIsToldOf) {
  const auto warnings = [](const std::string& options) {
    testing::internal::CaptureStderr();
    build<Model>(kLlama + options, five_tokens());
    return testing::internal::GetCapturedStderr();
  };
  const std::string lora = "lora: {rank: 1, target_modules: '*embed_tokens'}}";
  EXPECT_NE(warnings("tie_embeddings: true, " + lora)
                .find("'lm_head' is tied to 'model.embed_tokens', and an adapter changes one of "
                      "them alone: 'export --merge' writes them as two weights"),
            std::string::npos);
  EXPECT_EQ(warnings("tie_embeddings: false, " + lora), "");
  {
    const ShapesOnly plan;
    EXPECT_EQ(warnings("tie_embeddings: true, " + lora), "");
  }
  EXPECT_EQ(warnings("tie_embeddings: true, lora: {rank: 1}}"), "");
}

TEST(VocabularyLoraTest, TheHeadForClassesIsTrainedByDefault) {
  ModelContext texts = five_tokens();
  texts.data.target = {};
  texts.data.classes = 3;
  const auto model = build<Model>(
      kLlama + std::string("num_classes: 3, lora: {rank: 1, target_modules: '*q_proj'}}"), texts);
  EXPECT_EQ(trained_parameters(*model),
            "model.layers.0.self_attn.q_proj.lora_A.weight "
            "model.layers.0.self_attn.q_proj.lora_B.weight score.weight");
}

}  // namespace
}  // namespace accel::vocabulary_lora_test
