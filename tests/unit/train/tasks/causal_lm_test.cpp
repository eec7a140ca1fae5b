// Next-token prediction: ignored targets, chunks, and models that cannot do it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"
#include "train/tasks/chunked_cross_entropy.h"

namespace accel::causal_lm_test {
namespace {

constexpr int64_t kVocab = 11;

TableModel table_model() {
  at::Generator numbers = at::detail::createCPUGenerator(2);
  const at::Tensor embedding = at::randn({kVocab, 6}, numbers);
  return {embedding.clone().requires_grad_(), at::randn({kVocab, 6}, numbers).requires_grad_()};
}

/// Two sequences of five tokens; the first two targets of each carry no loss.
Batch token_batch() {
  const auto ids = at::TensorOptions().dtype(at::kLong);
  at::Generator numbers = at::detail::createCPUGenerator(1);
  const at::Tensor inputs = at::randint(kVocab, {2, 5}, numbers, ids);
  Batch batch = numbered_batch(inputs, at::randint(kVocab, {2, 5}, numbers, ids));
  batch.targets.narrow(1, 0, 2).fill_(kIgnoredTarget);
  return batch;
}

TEST(CausalLmTest, TheWeightIsTheTargetsThatCount) {
  EXPECT_EQ(build<Task>("causal_lm")->weight(token_batch()), 6.0);
}

TEST(CausalLmTest, WithoutChunksItIsPyTorchsCrossEntropyToTheLastBit) {
  TableModel model = table_model();
  const Batch batch = token_batch();
  const at::Tensor wanted =
      at::cross_entropy_loss(model.forward(batch.inputs).flatten(0, 1), batch.targets.flatten());
  EXPECT_TRUE(build<Task>("causal_lm")->loss(model, batch).equal(wanted));
}

TEST(CausalLmTest, ChunksChangeNeitherTheLossNorThePredictions) {
  TableModel model = table_model();
  const Batch batch = token_batch();
  const Evaluation plain = build<Task>("causal_lm")->evaluate(model, batch);
  const auto chunked = build<Task>("{type: causal_lm, chunk: 3}");
  const Evaluation parts = chunked->evaluate(model, batch);
  EXPECT_NEAR(plain.loss.item<double>(), parts.loss.item<double>(), 1e-6);
  EXPECT_NEAR(plain.loss.item<double>(), chunked->loss(model, batch).item<double>(), 1e-6);
  EXPECT_TRUE(plain.output.equal(parts.output));
  EXPECT_EQ(plain.output.sizes(), batch.targets.sizes());
}

TEST(CausalLmTest, ABatchWithoutTargetsHasNoLossAndNoGradient) {
  TableModel model = table_model();
  Batch batch = token_batch();
  batch.targets.fill_(kIgnoredTarget);
  const auto task = build<Task>("causal_lm");
  const at::Tensor loss = task->loss(model, batch);
  EXPECT_EQ(loss.item<double>(), 0.0);
  EXPECT_TRUE(loss.requires_grad());
  EXPECT_EQ(task->evaluate(model, batch).loss.item<double>(), 0.0);
}

/// Gives scores as any model would, with no last layer apart.
class ScoresModel final : public Model {
 public:
  at::Tensor forward(const at::Tensor& tokens) override { return inner_.forward(tokens); }
  torch::nn::Module& module() override { return inner_.module(); }
  const char* default_task() const override { return "causal_lm"; }

 private:
  TableModel inner_ = table_model();
};

TEST(CausalLmTest, TakesAnyModelThatScoresEachPlace) {
  ScoresModel model;
  const Batch batch = token_batch();
  const at::Tensor scores = model.forward(batch.inputs).flatten(0, 1);
  const auto task = build<Task>("causal_lm");
  EXPECT_TRUE(
      task->loss(model, batch).equal(at::cross_entropy_loss(scores, batch.targets.flatten())));
  EXPECT_TRUE(task->evaluate(model, batch).output.flatten().equal(scores.argmax(1)));
  Batch none = token_batch();
  none.targets.fill_(kIgnoredTarget);
  EXPECT_EQ(task->loss(model, none).item<double>(), 0.0);
}

std::string refusal(const std::string& task, Model& model) {
  try {
    build<Task>(task)->loss(model, token_batch());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return error.what();
  }
}

TEST(CausalLmTest, RefusesAModelWithoutAVocabulary) {
  EchoModel model;
  EXPECT_EQ(refusal("causal_lm", model),
            "the task 'causal_lm' needs logits of the next token at each position, but the model's "
            "output is [2, 5] and the targets are [2, 5]");
}

TEST(CausalLmTest, RefusesChunksOfAModelWithoutALastLayer) {
  ScoresModel model;
  EXPECT_EQ(refusal("{type: causal_lm, chunk: 3}", model),
            "'chunk' of the task 'causal_lm' is not supported by this model, which has no separate "
            "output layer");
}

TEST(CausalLmTest, RefusesDataWithoutTokens) {
  TaskContext context;
  context.data.input = {1, 28, 28};
  EXPECT_EQ(complaint<Task>("causal_lm", context),
            "the task 'causal_lm' wants tokens, but a sample of the data is F32 [1, 28, 28]");
}

TEST(CausalLmTest, RefusesTargetsThatAreNoNextTokens) {
  TaskContext context;
  context.data = {.input = {8}, .input_type = DType::kI64, .classes = 2, .vocab = 10};
  EXPECT_EQ(complaint<Task>("causal_lm", context),
            "the task 'causal_lm' needs the next token as target at each position, but the targets "
            "of the data are 2 classes I64 []");
  context.data.target = {8};
  EXPECT_EQ(complaint<Task>("causal_lm", context),
            "the task 'causal_lm' needs the next token as target at each position, but the targets "
            "of the data are 2 classes I64 [8]");
  context.data.classes = 0;
  EXPECT_EQ(complaint<Task>("causal_lm", context), "");
}

}  // namespace
}  // namespace accel::causal_lm_test
