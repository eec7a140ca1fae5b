
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/api/model.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"

namespace accel::freeze_test {
namespace {

ModelContext pictures() {
  ModelContext context;
  context.data.input = {3, 8, 8};
  context.data.classes = 2;
  return context;
}

std::unique_ptr<Model> small_resnet() {
  return build<Model>("{type: resnet, embedding_size: 2}", pictures());
}

/// The names that are trained, one after another.
std::string trained(Model& model) {
  std::string out;
  for (const Parameter& item : parameters_of(model)) {
    if (item.local.requires_grad()) out += (out.empty() ? "" : " ") + item.name;
  }
  return out;
}

std::string freeze_complaint(const std::string& yaml, const std::vector<std::string>& patterns) {
  const auto model = build<Model>(yaml, pictures());
  try {
    freeze_parameters(*model, patterns, {});
  } catch (const RecipeError& error) {
    std::string out;
    for (const Diagnostic& item : error.diagnostics())
      out += item.message + "; " + item.hint + "\n";
    return out;
  }
  return "";
}

TEST(FreezeTest, WhatAPatternNamesIsNotTrained) {
  const auto model = build<Model>("{type: mlp, hidden_sizes: [4, 4]}", pictures());
  const std::string all = trained(*model);
  freeze_parameters(*model, {}, {});
  EXPECT_EQ(trained(*model), all);
  freeze_parameters(*model, {"*.bias", "*0.weight"}, {});
  EXPECT_EQ(all,
            "layers.0.weight layers.0.bias layers.1.weight layers.1.bias layers.2.weight "
            "layers.2.bias");
  EXPECT_EQ(trained(*model), "layers.1.weight layers.2.weight");
}

TEST(FreezeTest, AFrozenBatchNormKeepsItsStatisticsInTraining) {
  const auto model = small_resnet();
  freeze_parameters(*model, {"bn1.*", "layer?.*", "conv1.*"}, {});
  const auto statistics = [&] {
    std::vector<at::Tensor> out;
    for (const Parameter& buffer : buffers_of(*model)) out.push_back(buffer.local.clone());
    return out;
  };
  const std::vector<at::Tensor> before = statistics();
  const at::Tensor images = at::randn({4, 3, 8, 8});
  const at::Tensor trained_output = model->forward(images);
  const std::vector<at::Tensor> after = statistics();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i]));
  set_training(*model, false);
  EXPECT_TRUE(model->forward(images).equal(trained_output));
  set_training(*model, true);
  EXPECT_TRUE(model->forward(images).equal(trained_output));
}

TEST(FreezeTest, ABatchNormOfWhichSomethingIsTrainedGoesOn) {
  const auto model = small_resnet();
  freeze_parameters(*model, {"bn1.weight"}, {});
  const at::Tensor mean = buffers_of(*model)[0].local.clone();
  model->forward(at::randn({4, 3, 8, 8}));
  EXPECT_EQ(buffers_of(*model)[0].name, "bn1.running_mean");
  EXPECT_FALSE(buffers_of(*model)[0].local.equal(mean));
}

TEST(FreezeTest, MistakesAreTold) {
  EXPECT_EQ(
      freeze_complaint("{type: mlp, hidden_sizes: [4]}", {"layers.0.*", "*.bais", "0.weight"}),
      "'*.bais' matches no parameter; did you mean '*.bias'?\n"
      "'0.weight' matches no parameter; did you mean '*0.weight'?\n");
  EXPECT_EQ(freeze_complaint("{type: mlp, hidden_sizes: [4]}", {"*.weight", "*.bias"}),
            "'freeze' leaves no parameter to train; narrow its patterns so that some of the 4 "
            "parameters stay out\n");
}

}  // namespace
}  // namespace accel::freeze_test
