// CLIP: the embeddings of pairs, where a text is pooled, its options and their mapping to folders.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "core/api/dual_encoder.h"
#include "models/clip/clip_options.h"
#include "tests/unit/build_component.h"

namespace accel::clip_test {
namespace {

using nlohmann::json;

constexpr auto kText = "num_layers: 2, num_heads: 2, hidden_size: 16";
constexpr auto kVision = "num_layers: 2, num_heads: 3, hidden_size: 12, patch_size: 4";

ModelContext pairs() {
  ModelContext context;
  context.data.input = {3, 8, 8};
  context.data.target = {6};
  context.data.vocab = 20;
  return context;
}

std::string recipe(const std::string& text = ", eos_token_id: 19", const std::string& vision = "",
                   const std::string& more = "") {
  return std::string("{type: clip, projection_dim: 5, text: {") + kText + text + "}, vision: {" +
         kVision + vision + "}" + more + "}";
}

std::unique_ptr<Model> made(const std::string& text = ", eos_token_id: 19",
                            const std::string& vision = "", const std::string& more = "") {
  at::manual_seed(5);
  auto model = build<Model>(recipe(text, vision, more), pairs());
  model->module().eval();
  return model;
}

/// Two images with texts of three and six tokens, the end token 19 included.
Batch some_batch() {
  at::manual_seed(1);
  Batch batch;
  batch.inputs = at::randn({2, 3, 8, 8});
  batch.targets =
      at::tensor(std::vector<int64_t>{1, 4, 19, 0, 0, 0, 1, 7, 3, 7, 2, 19}).view({2, 6});
  batch.ids = {0, 1};
  return batch;
}

PairEmbeddings embedded(Model& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  return dynamic_cast<DualEncoder&>(model).embed(batch);
}

TEST(ClipTest, EmbeddingsHaveTheLengthOne) {
  const auto model = made();
  const PairEmbeddings found = embedded(*model, some_batch());
  EXPECT_EQ(found.image.sizes(), (at::IntArrayRef{2, 5}));
  EXPECT_EQ(found.text.sizes(), (at::IntArrayRef{2, 5}));
  for (const at::Tensor& each : {found.image, found.text}) {
    EXPECT_TRUE(each.pow(2).sum(1).allclose(at::tensor(std::vector<float>{1, 1})));
  }
  EXPECT_TRUE(model->forward_batch(some_batch()).equal(at::stack({found.image, found.text}, 1)));
  EXPECT_NEAR(dynamic_cast<DualEncoder&>(*model).scale().item<double>(), std::exp(2.6592), 1e-4);
  EXPECT_STREQ(model->default_task(), "contrastive");
}

TEST(ClipTest, ATextIsItsTokensUpToTheFirstEndToken) {
  const auto model = made();
  const Batch batch = some_batch();
  const at::Tensor wanted = embedded(*model, batch).text;
  Batch padded = batch;
  padded.targets = batch.targets.clone();
  padded.targets[0].narrow(0, 3, 3).fill_(19);
  EXPECT_TRUE(embedded(*model, padded).text.allclose(wanted, 1e-4, 1e-6));
  Batch changed = batch;
  changed.targets = batch.targets.clone();
  changed.targets[0][1] = 5;
  EXPECT_FALSE(embedded(*model, changed).text[0].allclose(wanted[0]));
  EXPECT_TRUE(embedded(*model, changed).text[1].allclose(wanted[1], 1e-4, 1e-6));
}

TEST(ClipTest, OfTheEndTokenTwoTheHighestTokenCounts) {
  const Batch batch = some_batch();
  const at::Tensor wanted = embedded(*made(), batch).text;
  EXPECT_TRUE(embedded(*made(", eos_token_id: 2"), batch).text.allclose(wanted, 1e-4, 1e-6));
  EXPECT_FALSE(embedded(*made(", eos_token_id: 1"), batch).text.allclose(wanted));
}

TEST(ClipTest, OptionsThatChangeTheComputationDo) {
  const Batch batch = some_batch();
  const PairEmbeddings wanted = embedded(*made(), batch);
  for (const char* more : {", activation: gelu", ", norm_eps: 0.5"}) {
    const PairEmbeddings of_text = embedded(*made(std::string(", eos_token_id: 19") + more), batch);
    EXPECT_FALSE(of_text.text.allclose(wanted.text)) << more;
    EXPECT_TRUE(of_text.image.equal(wanted.image)) << more;
    const PairEmbeddings of_image = embedded(*made(", eos_token_id: 19", more), batch);
    EXPECT_FALSE(of_image.image.allclose(wanted.image)) << more;
    EXPECT_TRUE(of_image.text.equal(wanted.text)) << more;
  }
  const auto dropping = made(", eos_token_id: 19", "", ", attention_dropout: 0.5");
  EXPECT_TRUE(embedded(*dropping, batch).text.equal(wanted.text));
  dropping->module().train();
  const PairEmbeddings dropped = embedded(*dropping, batch);
  EXPECT_FALSE(dropped.text.allclose(wanted.text));
  EXPECT_FALSE(dropped.image.allclose(wanted.image));
}

TEST(ClipTest, DataThatDoesNotFitIsRefused) {
  const auto refused = [](DataShape data) {
    return complaint<Model>(recipe(), {.data = std::move(data)});
  };
  DataShape data = pairs().data;
  data.target = {};
  EXPECT_EQ(refused(data),
            "the model 'clip' needs an image and a text per sample, but a sample of the data has "
            "the target I64 []");
  data = pairs().data;
  data.input = {3, 8, 12};
  EXPECT_EQ(refused(data), "the model 'clip' requires square images, not [3, 8, 12]");
  data.input = {3, 10, 10};
  EXPECT_EQ(refused(data), "an image's side of 10 is not a multiple of 'vision.patch_size' 4");
  EXPECT_EQ(complaint<Model>(recipe(", eos_token_id: 19, max_seq_len: 5"), pairs()),
            "'text.max_seq_len' of the model 'clip' is 5, but the data needs 6");
  const auto model = made();
  Batch batch = some_batch();
  batch.targets = at::Tensor();
  EXPECT_THROW(embedded(*model, batch), Error);
  batch = some_batch();
  batch.targets = batch.targets.clamp_max(18);
  try {
    embedded(*model, batch);
    ADD_FAILURE() << "a text without an end token";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "a text of the batch has no token 19, the model's 'eos_token_id'");
  }
}

TEST(ClipTest, AModelOfTheRecipeNamesItsEndToken) {
  EXPECT_EQ(
      complaint<Model>(recipe(""), pairs())
          .find("recipe.yaml:1:39: error: 'text' has no 'eos_token_id', the token whose hidden "
                "state is the embedding of a text"),
      0U)
      << complaint<Model>(recipe(""), pairs());
}

json some_config() {
  return {{"model_type", "clip"},
          {"projection_dim", 7},
          {"text_config", {{"hidden_size", 30}, {"num_attention_heads", 5}, {"projection_dim", 9}}},
          {"vision_config", {{"patch_size", 16}, {"hidden_act", "gelu"}, {"num_labels", 2}}}};
}

std::vector<std::string> problems_of(const json& values) {
  HfConfig config(values.dump(), "config.json");
  ClipOptions::from_config(config);
  config.refuse_unknown_keys();
  return config.problems();
}

TEST(ClipTest, KeysThatAFolderLacksHaveTransformersDefaults) {
  HfConfig config(some_config().dump(), "config.json");
  const ClipOptions options = ClipOptions::from_config(config);
  EXPECT_EQ(config.problems(), std::vector<std::string>());
  EXPECT_EQ(options.projection_dim, 7);
  EXPECT_EQ(options.text.hidden_size, 30);
  EXPECT_EQ(*options.text.intermediate_size, 2048);
  EXPECT_EQ(*options.text.eos_token_id, 49407);
  EXPECT_EQ(*options.text.max_seq_len, 77);
  EXPECT_EQ(options.text.activation, HfActivation::kQuickGelu);
  EXPECT_EQ(options.vision.hidden_size, 768);
  EXPECT_EQ(options.vision.activation, HfActivation::kGelu);
  EXPECT_EQ(*options.vision.image_size, 224);
}

TEST(ClipTest, TheSectionsOfFirstFoldersCount) {
  json values = some_config();
  values["text_config_dict"] = {{"hidden_size", 64}};
  HfConfig config(values.dump(), "config.json");
  const ClipOptions options = ClipOptions::from_config(config);
  EXPECT_EQ(options.text.hidden_size, 64);
  EXPECT_EQ(options.text.num_heads, 8);
}

TEST(ClipTest, KeysWithAnotherComputationAreRefused) {
  using Texts = std::vector<std::string>;
  json values = some_config();
  values["text_config"]["rotary"] = true;
  EXPECT_EQ(problems_of(values),
            Texts{"'text_config': 'config.json' has true for 'rotary', a key whose effect on the "
                  "model is not known here"});
  values = some_config();
  values["vision_config"]["attention_dropout"] = 0.5;
  EXPECT_EQ(problems_of(values),
            Texts{"'vision_config': 'config.json' has 0.5 for 'attention_dropout', which differs "
                  "from 'text_config'"});
  values = some_config();
  values["text_config"]["eos_token_id"] = {1, 2};
  EXPECT_EQ(problems_of(values),
            Texts{"'text_config': 'config.json' has [1,2] for 'eos_token_id', which must be a "
                  "whole number"});
}

}  // namespace
}  // namespace accel::clip_test
