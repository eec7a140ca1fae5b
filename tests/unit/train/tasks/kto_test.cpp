// KTO: mismatched answers, and the loss computed by hand for a model of a table.
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/api/sequence_pairs.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"
#include "train/tasks/mismatched_answers.h"
#include "train/tasks/model_needs.h"

namespace accel::kto_test {
namespace {

constexpr int64_t kNone = kIgnoredTarget;

at::Tensor longs(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

TaskContext labelled_context() {
  TaskContext context;
  context.data.input = {8};
  context.data.input_type = DType::kI64;
  context.data.target = {1, 8};
  context.data.vocab = 4;
  context.data.padding = Padding{};
  context.data.segments = 2;
  return context;
}

/// Prompt [1] with the desirable answer [2 3], prompt [3 0] with the undesirable answer [1].
Batch two_answers() {
  Batch batch;
  batch.inputs = longs({1, 2, 3, 3, 0, 1}).view({2, 3});
  batch.targets = longs({2, 3, kNone, kNone, 1, kNone}).view({2, 3});
  batch.segments = longs({1, 1, 1, 0, 0, 0}).view({2, 3});
  batch.lengths = longs({3, 3});
  batch.ids = {4, 7};
  return batch;
}

at::Tensor table(double shift) {
  std::vector<float> values;
  for (int i = 0; i < 16; ++i) values.push_back(static_cast<float>(std::sin(i + shift)));
  return at::tensor(values).view({4, 4});
}

/// Built by a task.
class KtoReference final : public LanguageModel {
 public:
  static constexpr auto kName = "kto_reference";
  static constexpr auto kSummary = "For tests.";
  struct Options {};
  static Schema<Options> schema() { return {}; }
  explicit KtoReference(const Options&) : table_(table(1), table(3)) {}
  at::Tensor hidden(const at::Tensor& tokens) override { return table_.hidden(tokens); }
  at::Tensor head_weight() override { return table_.head_weight(); }
  at::Tensor forward(const at::Tensor& tokens) override { return table_.forward(tokens); }
  torch::nn::Module& module() override { return table_.module(); }
  const char* default_task() const override { return "causal_lm"; }

 private:
  TableModel table_;
};
const Register<KtoReference> kto_reference;

/// Sum of log P(next | token) over tokens of a path, of the model of table(shift).
double log_prob(double shift, const std::vector<int64_t>& path) {
  TableModel model(table(shift), table(3));
  double sum = 0;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const at::Tensor logits = model.forward(longs({path[i]}).view({1, 1})).flatten();
    sum += at::log_softmax(logits.to(at::kDouble), 0)[path[i + 1]].item<double>();
  }
  return sum;
}

double ratio(const std::vector<int64_t>& path) {
  return log_prob(0, path) - log_prob(1, path);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

Evaluation evaluated(const std::string& more, const Batch& batch) {
  TableModel model(table(0), table(3));
  return build<Task>("{type: kto, reference: kto_reference" + more + "}", labelled_context())
      ->evaluate(model, batch);
}

TEST(MismatchedAnswersTest, EachPromptGetsTheAnswerOfTheRowBefore) {
  const Batch out = mismatched_answers(two_answers(), 8);
  EXPECT_TRUE(out.inputs.equal(longs({1, 1, 0, 0, 3, 0, 2, 3}).view({2, 4}))) << out.inputs;
  EXPECT_TRUE(out.targets.equal(longs({1, kNone, kNone, kNone, kNone, 2, 3, kNone}).view({2, 4})));
  EXPECT_TRUE(out.lengths.equal(longs({2, 4})));
}

TEST(MismatchedAnswersTest, SequencesAreCutAtTheMaximumLength) {
  const Batch out = mismatched_answers(two_answers(), 3);
  EXPECT_TRUE(out.inputs.equal(longs({1, 1, 0, 3, 0, 2}).view({2, 3})));
  EXPECT_TRUE(out.targets.equal(longs({1, kNone, kNone, kNone, 2, kNone}).view({2, 3})));
  EXPECT_TRUE(out.lengths.equal(longs({2, 3})));
}

TEST(KtoTest, TheLossComparesRatiosWithTheDivergenceOfMismatchedAnswers) {
  const double kl = std::max(0.0, (ratio({1, 1}) + ratio({0, 2, 3})) / 2);
  ASSERT_GT(kl, 0.05);
  const double chosen = ratio({1, 2, 3}), rejected = ratio({0, 1});
  const double wanted =
      (2 * (1 - sigmoid(0.3 * (chosen - kl))) + 0.5 * (1 - sigmoid(0.3 * (kl - rejected)))) / 2;
  const Evaluation found =
      evaluated(", beta: 0.3, desirable_weight: 2, undesirable_weight: 0.5", two_answers());
  EXPECT_NEAR(found.loss.item<double>(), wanted, 1e-6);
  EXPECT_NEAR(found.output[0][kAnswerReward].item<double>(), 0.3 * chosen, 1e-6);
  EXPECT_NEAR(found.output[1][kAnswerLogProb].item<double>(), log_prob(0, {0, 1}), 1e-6);
  EXPECT_EQ(found.output[0][kAnswerLabel].item<double>(), 1);
  EXPECT_EQ(found.output[1][kAnswerLabel].item<double>(), 0);
  EXPECT_NEAR(found.output[1][kAnswerKl].item<double>(), kl, 1e-6);
}

TEST(KtoTest, ApoZeroUnpairedComparesWithZero) {
  const double wanted = (1 - sigmoid(0.1 * ratio({1, 2, 3})) + sigmoid(0.1 * ratio({0, 1}))) / 2;
  EXPECT_NEAR(evaluated(", loss_type: apo_zero_unpaired", two_answers()).loss.item<double>(),
              wanted, 1e-6);
}

TEST(KtoTest, ADivergenceBelowZeroIsZero) {
  Batch batch = two_answers();
  // The mismatched answers are [2] after 2 and [2] after 2: less likely than under the reference.
  batch.inputs = longs({2, 2, 0, 2, 2, 0}).view({2, 3});
  batch.targets = longs({2, kNone, kNone, 2, kNone, kNone}).view({2, 3});
  batch.lengths = longs({2, 2});
  ASSERT_LT(ratio({2, 2}), -0.05);
  EXPECT_EQ(evaluated("", batch).output[0][kAnswerKl].item<double>(), 0);
}

TEST(KtoTest, OtherDataIsRefused) {
  TaskContext pairs = labelled_context();
  pairs.data.target = {2, 8};
  EXPECT_EQ(complaint<Task>("{type: kto}", pairs),
            "the task 'kto' needs answers with a label, but a sample of the data is I64 [8] with "
            "targets [2, 8]");
}

TEST(KtoTest, WithoutAReferenceTheAdapterIsSwitchedOff) {
  const auto bare = build<Task>("{type: kto}", labelled_context());
  EXPECT_TRUE(dynamic_cast<AdapterReference&>(*bare).uses_adapter_reference());
  const auto task = build<Task>("{type: kto, reference: kto_reference}", labelled_context());
  EXPECT_FALSE(dynamic_cast<AdapterReference&>(*task).uses_adapter_reference());
  ASSERT_EQ(task->models().size(), 1U);
  EXPECT_FALSE(task->models()[0].in_checkpoints);
}

}  // namespace
}  // namespace accel::kto_test
