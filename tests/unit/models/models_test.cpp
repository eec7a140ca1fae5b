// Sizes taken from the data, models that do not fit it, and what each model says of itself.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/api/model.h"
#include "tests/unit/build_component.h"

namespace accel::models_test {
namespace {

ModelContext images(Shape input, int64_t classes) {
  ModelContext context;
  context.data.input = std::move(input);
  context.data.classes = classes;
  return context;
}

ModelContext tokens(int64_t context_length, int64_t vocab) {
  ModelContext context;
  context.data.input = {context_length};
  context.data.input_type = DType::kI64;
  context.data.target = {context_length};
  context.data.vocab = vocab;
  return context;
}

ModelContext numbers(int64_t inputs, Shape target) {
  ModelContext context;
  context.data.input = {inputs};
  context.data.target = std::move(target);
  context.data.target_type = DType::kF32;
  return context;
}

int64_t parameter_count(const std::string& yaml, const ModelContext& context) {
  int64_t count = 0;
  for (const auto& parameter : build<Model>(yaml, context)->module().parameters()) {
    count += parameter.numel();
  }
  return count;
}

TEST(ModelTest, AutoSizesComeFromTheData) {
  EXPECT_EQ(parameter_count("linear", numbers(4, {})), 4 + 1);
  EXPECT_EQ(parameter_count("linear", numbers(4, {3})), 4 * 3 + 3);
  EXPECT_EQ(parameter_count("mlp", images({1, 2, 2}, 3)), 4 * 128 + 128 + 128 * 3 + 3);
  EXPECT_EQ(parameter_count("{type: mlp, hidden_sizes: []}", images({1, 2, 2}, 3)), 4 * 3 + 3);
  EXPECT_EQ(parameter_count("lenet", images({1, 28, 28}, 10)), 431080);
  EXPECT_EQ(parameter_count("resnet", images({3, 224, 224}, 1000)), 11689512);
  EXPECT_EQ(
      parameter_count("{type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2}", tokens(8, 5)),
      5 * 4 + 8 * 4 + 3 * 8 + (4 * 12 + 12) + (4 * 4 + 4) + (4 * 16 + 16) + (16 * 4 + 4));
}

TEST(ModelTest, ResNetsOfAllDepthsHaveTheSizesOfTransformers) {
  const std::pair<int, int64_t> sizes[] = {{18, 11575}, {26, 15163},  {34, 21671},
                                           {50, 25175}, {101, 45303}, {152, 61975}};
  for (const auto& [depth, count] : sizes) {
    EXPECT_EQ(parameter_count("{type: resnet, stem: imagenet, embedding_size: 2, depth: " +
                                  std::to_string(depth) + "}",
                              images({3, 32, 32}, 5)),
              count)
        << depth;
  }
}

TEST(ModelTest, AVisionTransformerWantsSquareImagesOfWholePatches) {
  const auto complaint_of = [](const std::string& options, Shape input) {
    return complaint<Model>(
        "{type: vit, hidden_size: 8, num_heads: 2, num_layers: 1" + options + "}",
        images(std::move(input), 3));
  };
  EXPECT_EQ(complaint_of("", {1, 8, 8}), "");
  EXPECT_EQ(complaint_of("", {1, 8, 12}), "the model 'vit' requires square images, not [1, 8, 12]");
  EXPECT_EQ(complaint_of(", patch_size: 3", {1, 8, 8}),
            "an image's side of 8 is not a multiple of 'patch_size' 3");
}

TEST(ModelTest, TheStemFollowsTheImageSize) {
  const auto first = [](const std::string& yaml, const ModelContext& context) {
    return build<Model>(yaml, context)->module().parameters()[0].size(2);
  };
  EXPECT_EQ(first("{type: resnet, embedding_size: 2}", images({3, 64, 64}, 2)), 3);
  EXPECT_EQ(first("{type: resnet, embedding_size: 2}", images({3, 65, 65}, 2)), 7);
  EXPECT_EQ(first("{type: resnet, embedding_size: 2, stem: imagenet}", images({3, 32, 32}, 2)), 7);
}

TEST(ModelTest, TheDefaultTaskFollowsTheTargets) {
  EXPECT_STREQ(build<Model>("mlp", images({1, 8, 8}, 10))->default_task(), "classification");
  EXPECT_STREQ(build<Model>("mlp", numbers(4, {}))->default_task(), "regression");
  EXPECT_STREQ(build<Model>("linear", numbers(4, {}))->default_task(), "regression");
  EXPECT_STREQ(build<Model>("gpt", tokens(8, 65))->default_task(), "causal_lm");
}

TEST(ModelTest, DropoutActsInTrainingOnly) {
  const auto model = build<Model>("{type: lenet, dropout: 0.5}", images({1, 28, 28}, 10));
  const at::Tensor inputs = at::randn({2, 1, 28, 28});
  EXPECT_FALSE(model->forward(inputs).equal(model->forward(inputs)));
  model->module().eval();
  EXPECT_TRUE(model->forward(inputs).equal(model->forward(inputs)));
}

TEST(ModelTest, AGptSeesNoTokenToTheRight) {
  const auto model = build<Model>("gpt", tokens(8, 65));
  model->module().eval();
  const at::Tensor ids = at::randint(65, {1, 8}, at::TensorOptions().dtype(at::kLong));
  at::Tensor changed = ids.clone();
  changed.select(1, 5).add_(1).remainder_(65);
  const at::Tensor moved =
      model->forward(ids).sub(model->forward(changed)).abs().amax(2).squeeze(0);
  EXPECT_LT(moved.narrow(0, 0, 5).max().item<double>(), 1e-6);
  EXPECT_GT(moved.narrow(0, 5, 3).min().item<double>(), 1e-6);
}

TEST(ModelTest, AGptHasTheLogitsOfItsHiddenStates) {
  const auto model = build<Model>("gpt", tokens(8, 65));
  auto& language = dynamic_cast<LanguageModel&>(*model);
  const at::Tensor ids = at::randint(65, {2, 8}, at::TensorOptions().dtype(at::kLong));
  EXPECT_TRUE(
      language.forward(ids).equal(at::linear(language.hidden(ids), language.head_weight())));
}

struct Misfit {
  const char* yaml;
  ModelContext context;
  const char* message;
};

TEST(ModelTest, WhatDoesNotFitTheDataIsNamed) {
  const Misfit cases[] = {
      {"{type: mlp, inputs: 100}", images({1, 28, 28}, 10),
       "'inputs' of the model 'mlp' is 100, but the data has 784"},
      {"{type: mlp, outputs: 5}", images({1, 28, 28}, 10),
       "'outputs' of the model 'mlp' is 5, but the data has 10"},
      {"linear", {}, "'inputs' of the model 'linear' is auto, but the data does not determine it"},
      {"linear", tokens(8, 65),
       "the model 'linear' requires F32 numbers, but a sample of the data is I64 [8]"},
      {"{type: lenet, image: [3, 32, 32]}", images({1, 28, 28}, 10),
       "'image' of the model 'lenet' is [3, 32, 32], but the data has [1, 28, 28]"},
      {"lenet", {}, "'image' of the model 'lenet' is auto, but the data does not determine it"},
      {"lenet", images({1, 15, 28}, 10),
       "the model 'lenet' requires images of at least 16 x 16 pixels, not 15 x 28"},
      {"{type: resnet, num_classes: 5}", images({3, 32, 32}, 10),
       "'num_classes' of the model 'resnet' is 5, but the data has 10"},
      {"resnet", numbers(4, {}),
       "the model 'resnet' requires F32 images [channels, height, width], but a sample of the data "
       "is F32 [4]"},
      {"{type: resnet, channels: 3, num_classes: 10}",
       {},
       "'stem' of the model 'resnet' is auto, but the data does not determine it"},
      {"{type: gpt, vocab_size: 50}", tokens(64, 65),
       "'vocab_size' of the model 'gpt' is 50, but the data needs 65"},
      {"{type: gpt, max_seq_len: 32}", tokens(64, 65),
       "'max_seq_len' of the model 'gpt' is 32, but the data needs 64"},
      {"gpt", images({1, 28, 28}, 10),
       "the model 'gpt' requires I64 token ids [context], but a sample of the data is F32 [1, 28, "
       "28]"}};
  for (const Misfit& misfit : cases) {
    EXPECT_EQ(complaint<Model>(misfit.yaml, misfit.context), misfit.message);
  }
}

TEST(ModelTest, OptionsThatContradictEachOtherAreRefused) {
  EXPECT_EQ(complaint<Model>("{type: gpt, hidden_size: 130}", tokens(64, 65)),
            "recipe.yaml:1:1: error: 'hidden_size' must be a multiple of 'num_heads', but 130 is "
            "not one of "
            "4\n    {type: gpt, hidden_size: 130}\n    ^\n");
  EXPECT_EQ(complaint<Model>("{type: lenet, filters: [6]}", images({1, 28, 28}, 10)),
            "recipe.yaml:1:1: error: 'filters' must be two numbers, not 1\n"
            "    {type: lenet, filters: [6]}\n    ^\n");
}

TEST(DcganTest, NoiseBecomesImagesAndImagesOneNumberEach) {
  const auto generator =
      build<Model>("{type: dcgan_generator, latent: 5, features: 3}", images({2, 8, 12}, 0));
  auto& made = dynamic_cast<Generator&>(*generator);
  EXPECT_EQ(made.latent(), 5);
  const at::Tensor drawn = made.forward(at::zeros({4, 5}));
  EXPECT_EQ(drawn.sizes(), (std::vector<int64_t>{4, 2, 8, 12}));
  EXPECT_LE(drawn.abs().max().item<double>(), 1);
  const auto discriminator =
      build<Model>("{type: dcgan_discriminator, features: 3}", images({2, 8, 12}, 0));
  EXPECT_EQ(discriminator->forward(drawn).sizes(), (std::vector<int64_t>{4, 1}));
}

TEST(DcganTest, BatchNormIsAChoiceAndTakesThePlaceOfABias) {
  // 5 x 6 x 2 x 3, 6 x 3 x 4 x 4, 3 x 2 x 4 x 4; then two batch norms or two biases, and the last
  // bias.
  EXPECT_EQ(
      parameter_count("{type: dcgan_generator, latent: 5, features: 3}", images({2, 8, 12}, 0)),
      180 + 288 + 96 + 2 * (6 + 3) + 2);
  EXPECT_EQ(parameter_count("{type: dcgan_generator, latent: 5, features: 3, batch_norm: false}",
                            images({2, 8, 12}, 0)),
            180 + 288 + 96 + 6 + 3 + 2);
}

TEST(DcganTest, SidesMustBeMultiplesOfFour) {
  EXPECT_EQ(
      complaint<Model>("dcgan_generator", images({1, 10, 8}, 0)),
      "the model 'dcgan_generator' requires images with sides that are multiples of 4, not 10 x 8");
}

}  // namespace
}  // namespace accel::models_test
