// A label for each token: which tokens count, and which data it is for.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::token_classification_test {
namespace {

TaskContext tokens(Shape target = {8}, std::vector<std::string> labels = {}, int64_t classes = 3) {
  TaskContext context;
  context.data = {.input = {8},
                  .input_type = DType::kI64,
                  .target = std::move(target),
                  .classes = classes,
                  .labels = std::move(labels)};
  return context;
}

constexpr int64_t kOut = kIgnoredTarget;

TEST(TokenClassificationTest, OnlyLabelledTokensCount) {
  const auto task = build<Task>("token_classification", tokens());
  EchoModel model;
  const Batch first = three_places({2, kOut, kOut});
  EXPECT_EQ(task->weight(first), 1.0);
  EXPECT_NEAR(task->loss(model, first).item<double>(), std::log(std::exp(3.0) + 2) - 3, 1e-6);
  const Batch second = three_places({kOut, 1, 0});
  EXPECT_EQ(task->weight(second), 2.0);
  EXPECT_NEAR(task->loss(model, second).item<double>(), std::log(3.0), 1e-6);
  EXPECT_EQ(task->loss(model, three_places({kOut, kOut, kOut})).item<double>(), 0.0);
}

TEST(TokenClassificationTest, TheOutputIsTheLikeliestLabelAtEachPlace) {
  EchoModel model;
  const Evaluation result =
      build<Task>("token_classification", tokens())->evaluate(model, three_places({2, 1, kOut}));
  EXPECT_EQ(result.output.sizes(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(result.output[0][0].item<int64_t>(), 2);
}

TEST(TokenClassificationTest, LabelsOfEntitiesAreJudgedByEntities) {
  const auto metrics = [](std::vector<std::string> labels) {
    return build<Task>("token_classification", tokens({8}, std::move(labels)))->default_metrics();
  };
  EXPECT_EQ(metrics({"B-PER", "I-PER", "O"}), (std::vector<std::string>{"entity_f1"}));
  EXPECT_EQ(metrics({"ADJ", "NOUN", "VERB"}), (std::vector<std::string>{"accuracy"}));
  EXPECT_EQ(metrics({}), (std::vector<std::string>{"accuracy"}));
}

TEST(TokenClassificationTest, WantsALabelForEachToken) {
  EXPECT_EQ(complaint<Task>("token_classification", tokens({})),
            "the task 'token_classification' needs a label for each token, but the data's input is "
            "I64 [8] and the target I64 []");
  EXPECT_EQ(complaint<Task>("token_classification", tokens({8}, {}, 0)),
            "the task 'token_classification' needs a label for each token, but the data's input is "
            "I64 [8] and the target I64 [8], without known labels");
  const auto task = build<Task>("token_classification", tokens());
  EchoModel model;
  const Batch flat =
      numbered_batch(at::tensor(std::vector<double>{1, 2, 3}, at::kFloat).view({1, 3}),
                     at::tensor(std::vector<int64_t>{1}, at::kLong).view({1, 1}));
  try {
    task->loss(model, flat);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'token_classification' needs logits for every token, but the model's "
                 "output is [1, 3]");
    EXPECT_EQ(error.hint(), "a model such as 'bert' labels each token with 'head: labels'");
  }
}

}  // namespace
}  // namespace accel::token_classification_test
