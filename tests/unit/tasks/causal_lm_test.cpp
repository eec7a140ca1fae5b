// Next-token prediction: ignored targets, chunks, and models that cannot do it.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/targets.h"
#include "core/task.h"
#include "runner/tasks/chunked_cross_entropy.h"
#include "tests/unit/build_component.h"
#include "tests/unit/tasks/fake_models.h"

namespace accel {
namespace {

constexpr int64_t kVocab = 11;

TableModel table_model() {
  const auto numbers = at::TensorOptions().dtype(at::kFloat);
  return {at::randn({kVocab, 6}, numbers).requires_grad_(),
          at::randn({kVocab, 6}, numbers).requires_grad_()};
}

/// Two sequences of five tokens; the first two targets of each carry no loss.
Batch token_batch() {
  const auto ids = at::TensorOptions().dtype(at::kLong);
  Batch batch = numbered_batch(at::randint(kVocab, {2, 5}, ids), at::randint(kVocab, {2, 5}, ids));
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

TEST(CausalLmTest, RefusesAModelWithoutAVocabulary) {
  EchoModel model;
  try {
    build<Task>("causal_lm")->loss(model, token_batch());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'causal_lm' wants a language model, and this model is none");
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
  }
}

TEST(CausalLmTest, RefusesDataWithoutTokens) {
  TaskContext context;
  context.data.input = {1, 28, 28};
  EXPECT_EQ(complaint<Task>("causal_lm", context),
            "the task 'causal_lm' wants tokens, but a sample of the data is F32 [1, 28, 28]");
}

}  // namespace
}  // namespace accel
