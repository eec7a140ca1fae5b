// Exported programs against Python's numbers, and what is refused.
// tests/interop/make_golden_exported.py writes the programs and what is wanted.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "core/base/error.h"
#include "models/layers/module_state.h"
#include "models/layers/share_batch_norm.h"
#include "tests/unit/build_component.h"

namespace accel::exported_test {
namespace {

using ExportedJson = nlohmann::json;

constexpr int64_t kRows = 4;
constexpr int64_t kPlaces = 6;
constexpr double kRate = 0.1;
constexpr double kClose = 1e-5;

std::string exported_folder() {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/models/golden/exported/";
}

ExportedJson golden_of(const std::string& name) {
  std::ifstream file(exported_folder() + "golden.json");
  return ExportedJson::parse(file)[name];
}

std::string recipe_of(const std::string& name, const std::string& more = "") {
  return "{type: exported, file: '" + exported_folder() + name + ".pt2'" + more + "}";
}

ModelContext four_numbers() {
  ModelContext context;
  context.data.input = {4};
  context.data.classes = 4;
  return context;
}

ModelContext six_words() {
  ModelContext context;
  context.data.input = {kPlaces};
  context.data.input_type = DType::kI64;
  context.data.vocab = 7;
  context.data.classes = 3;
  context.data.padding = Padding{};
  return context;
}

Batch numbers_batch() {
  Batch batch;
  batch.inputs = at::empty({kRows, 4});
  float* values = batch.inputs.mutable_data_ptr<float>();
  for (int i = 0; i < kRows * 4; ++i) values[i] = static_cast<float>(std::sin(3.0 * i + 1.0));
  batch.targets = at::arange(kRows);
  return batch;
}

Batch words_batch() {
  Batch batch;
  const auto ids = at::TensorOptions().dtype(at::kLong);
  batch.inputs = at::empty({kRows, kPlaces}, ids);
  batch.lengths = at::empty({kRows}, ids);
  for (int64_t row = 0; row < kRows; ++row) {
    batch.lengths.mutable_data_ptr<int64_t>()[row] = kPlaces - row;
    for (int64_t place = 0; place < kPlaces; ++place) {
      batch.inputs.mutable_data_ptr<int64_t>()[row * kPlaces + place] = (3 * row + 5 * place) % 7;
    }
  }
  batch.targets = at::arange(kRows).remainder(3);
  return batch;
}

/// Losses of three steps of gradient descent, as the script takes them.
std::vector<double> train_steps(Model& model, const Batch& batch) {
  std::vector<double> losses;
  at::manual_seed(5);
  for (int step = 0; step < 3; ++step) {
    set_training(model, true);
    const at::Tensor loss = at::cross_entropy_loss(model.forward_batch(batch), batch.targets);
    loss.backward();
    const at::NoGradGuard no_grad;
    for (const Parameter& parameter : parameters_of(model)) {
      if (!parameter.local.grad().defined()) continue;
      parameter.local.sub_(parameter.local.grad(), kRate);
      parameter.local.mutable_grad().reset();
    }
    losses.push_back(loss.item<double>());
  }
  return losses;
}

at::Tensor evaluated(Model& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  set_training(model, false);
  return model.forward_batch(batch);
}

void expect_pythons_numbers(Model& model, const Batch& batch, const ExportedJson& wanted) {
  const auto losses = train_steps(model, batch);
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], wanted["losses"][i].get<double>(), kClose);
  }
  const at::Tensor logits = evaluated(model, batch).flatten().contiguous();
  ASSERT_EQ(static_cast<size_t>(logits.numel()), wanted["eval"].size());
  for (int64_t i = 0; i < logits.numel(); ++i) {
    EXPECT_NEAR(logits[i].item<double>(), wanted["eval"][i].get<double>(), kClose);
  }
}

std::vector<std::string> names_of(const std::vector<Parameter>& tensors) {
  std::vector<std::string> out;
  for (const Parameter& item : tensors) out.push_back(item.name);
  return out;
}

TEST(ExportedTest, TrainsAndEvaluatesAsPythonDoes) {
  const auto model = build<Model>(recipe_of("mixed", ", output: logits"), four_numbers());
  expect_pythons_numbers(*model, numbers_batch(), golden_of("mixed"));
}

TEST(ExportedTest, AProgramForTrainingAloneIsTurnedToEvaluation) {
  const auto model =
      build<Model>(recipe_of("mixed_train_only", ", output: logits"), four_numbers());
  expect_pythons_numbers(*model, numbers_batch(), golden_of("mixed"));
}

TEST(ExportedTest, TakesLengthsAsAMask) {
  const auto model = build<Model>(recipe_of("words"), six_words());
  expect_pythons_numbers(*model, words_batch(), golden_of("words"));
}

TEST(ExportedTest, TensorsHavePythonsNamesAndTiedOnesAreOne) {
  for (const char* name : {"mixed", "words"}) {
    const bool words = name == std::string("words");
    const auto model = build<Model>(recipe_of(name, words ? "" : ", output: logits"),
                                    words ? six_words() : four_numbers());
    const ExportedJson wanted = golden_of(name);
    EXPECT_EQ(names_of(parameters_of(*model)), wanted["parameters"]);
    EXPECT_EQ(names_of(buffers_of(*model)), wanted["buffers"]);
  }
}

TEST(ExportedTest, FrozenParametersStayFrozen) {
  const auto model = build<Model>(recipe_of("words"), six_words());
  for (const Parameter& parameter : parameters_of(*model)) {
    EXPECT_EQ(parameter.local.requires_grad(), parameter.name != "head.bias") << parameter.name;
  }
}

TEST(ExportedTest, OnlyTrainingCountsBatches) {
  for (const char* name : {"mixed", "mixed_train_only"}) {
    const auto model = build<Model>(recipe_of(name, ", output: logits"), four_numbers());
    train_steps(*model, numbers_batch());
    evaluated(*model, numbers_batch());
    const at::Tensor* count = model->module().named_buffers().find("norm.num_batches_tracked");
    ASSERT_TRUE(count);
    EXPECT_EQ(count->item<int64_t>(), 3);
  }
}

TEST(ExportedTest, TakesBatchesAndTextsOfAnySize) {
  const auto model = build<Model>(recipe_of("words"), six_words());
  const Batch whole = words_batch();
  Batch part = whole;
  part.inputs = whole.inputs.slice(0, 2, 3).slice(1, 0, 4);
  part.lengths = whole.lengths.slice(0, 2, 3);
  const at::Tensor alone = evaluated(*model, part);
  EXPECT_EQ(alone.sizes(), (std::vector<int64_t>{1, 3}));
}

TEST(ExportedTest, RefusesDataThatItWasNotExportedFor) {
  ModelContext five = four_numbers(), tokens = four_numbers();
  five.data.input = {5};
  tokens.data.input_type = DType::kI64;
  const std::string recipe = recipe_of("mixed", ", output: logits");
  EXPECT_EQ(complaint<Model>(recipe, five),
            "the program requires [any, 4] of Float for 'x', but a sample of the data is F32 [5]");
  EXPECT_EQ(complaint<Model>(recipe, tokens),
            "the program requires [any, 4] of Float for 'x', but a sample of the data is I64 [4]");
}

TEST(ExportedTest, RefusesNamesThatTheProgramDoesNotHave) {
  EXPECT_EQ(complaint<Model>(recipe_of("mixed", ", output: scores"), four_numbers()),
            "the program has no output 'scores'");
  EXPECT_EQ(complaint<Model>(recipe_of("mixed", ", inputs: {y: mask}"), four_numbers()),
            "'inputs' names 'y', but the program has 'x'");
}

std::string script_of(const std::string& more) {
  return "{type: torchscript, file: '" + exported_folder() + "mixed_script.pt'" + more + "}";
}

TEST(TorchScriptTest, TrainsAndEvaluatesAsPythonDoes) {
  const auto model = build<Model>(script_of(", output: logits"), four_numbers());
  EXPECT_EQ(names_of(parameters_of(*model)), golden_of("mixed")["parameters"]);
  expect_pythons_numbers(*model, numbers_batch(), golden_of("mixed"));
}

TEST(TorchScriptTest, WantsToKnowWhichOutputIsMeant) {
  const auto model = build<Model>(script_of(""), four_numbers());
  try {
    model->forward_batch(numbers_batch());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the TorchScript module returns a GenericDict without a first tensor");
  }
}

TEST(TorchScriptTest, RefusesOtherFiles) {
  const std::string archive = "{type: torchscript, file: '" + exported_folder() + "mixed.pt2'}";
  const std::string start = "the file is not TorchScript: PytorchStreamReader failed ";
  EXPECT_EQ(complaint<Model>(archive).substr(0, start.size()), start);
  EXPECT_NE(complaint<Model>("{type: torchscript, file: '" + exported_folder() + "golden.json'}")
                .find("the file is not TorchScript: it is not a zip archive"),
            std::string::npos);
}

TEST(ExportedTest, BatchNormsKnowNoRanks) {
  const auto model = build<Model>(recipe_of("mixed", ", output: logits"), four_numbers());
  try {
    share_batch_norm(*model, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'norm' is a Python batch norm, which does not support several ranks");
  }
}

TEST(ExportedTest, ChoosesATaskByTheData) {
  const std::string recipe = recipe_of("mixed", ", output: logits");
  EXPECT_STREQ(build<Model>(recipe, four_numbers())->default_task(), "classification");
  ModelContext numeric = four_numbers();
  numeric.data.classes = 0;
  numeric.data.target = {4};
  numeric.data.target_type = DType::kF32;
  EXPECT_STREQ(build<Model>(recipe, numeric)->default_task(), "regression");
  ModelContext tokens = six_words();
  tokens.data.target = tokens.data.input;
  EXPECT_STREQ(build<Model>(recipe_of("words"), tokens)->default_task(), "causal_lm");
}

}  // namespace
}  // namespace accel::exported_test
