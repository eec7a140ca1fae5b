// Losses on preference pairs, computed by hand for a model of a table.
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/sequence_pairs.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"
#include "train/tasks/chunked_cross_entropy.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/dpo_losses.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/uses_pair_margins.h"

namespace accel::preference_tasks_test {
namespace {

constexpr int64_t kNone = kIgnoredTarget;

at::Tensor longs(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

TaskContext pairs_context() {
  TaskContext context;
  context.data.input = {8};
  context.data.input_type = DType::kI64;
  context.data.target = {kPairSize, 8};
  context.data.vocab = 4;
  context.data.padding = Padding{};
  context.data.segments = 2;
  return context;
}

/// Two samples: [1 2 3] and [1 2], then [1 3] and [1 0 2], padded to six tokens.
Batch two_pairs() {
  Batch batch;
  batch.inputs = longs({1, 2, 3, 1, 2, 0, 1, 3, 1, 0, 2, 0}).view({2, 6});
  batch.targets = longs({2, 3, kNone, 2, kNone, kNone, 3, kNone, 0, 2, kNone, kNone}).view({2, 6});
  batch.segments = longs({0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0}).view({2, 6});
  batch.lengths = longs({5, 5});
  batch.ids = {0, 1};
  return batch;
}

at::Tensor table(double shift) {
  std::vector<float> values;
  for (int i = 0; i < 16; ++i) values.push_back(static_cast<float>(std::sin(i + shift)));
  return at::tensor(values).view({4, 4});
}

TableModel policy() {
  return {table(0), table(3)};
}

/// Built by a task.
class Reference final : public LanguageModel {
 public:
  static constexpr auto kName = "reference_table";
  static constexpr auto kSummary = "For tests.";
  struct Options {
    double shift = 1;
  };
  static Schema<Options> schema() {
    return Schema<Options>().field("shift", &Options::shift, "Of the table.");
  }
  explicit Reference(const Options& options) : table_(table(options.shift), table(3)) {}
  at::Tensor hidden(const at::Tensor& tokens) override { return table_.hidden(tokens); }
  at::Tensor head_weight() override { return table_.head_weight(); }
  at::Tensor forward(const at::Tensor& tokens) override { return table_.forward(tokens); }
  torch::nn::Module& module() override { return table_.module(); }
  const char* default_task() const override { return "causal_lm"; }

 private:
  TableModel table_;
};
const Register<Reference> reference_table;

/// log P(target | token) of a table model, by definition.
double log_prob(TableModel model, int64_t token, int64_t target) {
  const at::Tensor logits = model.forward(longs({token}).view({1, 1})).flatten();
  return at::log_softmax(logits.to(at::kDouble), 0)[target].item<double>();
}

double log_sigmoid(double x) {
  return -std::log1p(std::exp(-x));
}

/// Chosen and rejected log-probabilities of a sample of two_pairs().
std::pair<double, double> scores(const TableModel& m, int sample) {
  const double chosen = sample == 0 ? log_prob(m, 1, 2) + log_prob(m, 2, 3) : log_prob(m, 1, 3);
  const double rejected = sample == 0 ? log_prob(m, 1, 2) : log_prob(m, 1, 0) + log_prob(m, 0, 2);
  return {chosen, rejected};
}

double loss_of(const std::string& yaml) {
  TableModel model = policy();
  return build<Task>(yaml, pairs_context())->loss(model, two_pairs()).item<double>();
}

TEST(PairRowsTest, FirstSequencesComeBeforeSecondOnesEachPadded) {
  const Batch rows = pair_rows(two_pairs());
  EXPECT_TRUE(rows.inputs.equal(longs({1, 2, 3, 1, 3, 0, 1, 2, 0, 1, 0, 2}).view({4, 3})));
  EXPECT_TRUE(rows.targets.equal(
      longs({2, 3, kNone, 3, kNone, kNone, 2, kNone, kNone, 0, 2, kNone}).view({4, 3})));
  EXPECT_TRUE(rows.lengths.equal(longs({3, 2, 2, 3})));
  EXPECT_EQ(rows.size(), 4);
}

TEST(CompletionScoresTest, AreSumsOverTheTokensOfACompletion) {
  TableModel model = policy();
  const CompletionScores found = score_completions("dpo", model, pair_rows(two_pairs()));
  const std::vector<double> wanted = {scores(model, 0).first, scores(model, 1).first,
                                      scores(model, 0).second, scores(model, 1).second};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(found.log_probs[i].item<double>(), wanted[static_cast<size_t>(i)], 1e-6);
  }
  EXPECT_TRUE(found.tokens.equal(longs({2, 1, 1, 2})));
}

TEST(ChunkedLogProbsTest, ValuesAndGradientsAreThoseOfWholeLogits) {
  const at::Tensor hidden = at::rand({5, 3}), weight = at::rand({4, 3}), factors = at::rand({5});
  const at::Tensor targets = longs({0, 3, 1, 1, 2});
  const auto gradients = [&](const auto& log_probs) {
    const at::Tensor h = hidden.clone().requires_grad_(true);
    const at::Tensor w = weight.clone().requires_grad_(true);
    const at::Tensor out = log_probs(h, w);
    out.mul(factors).sum().backward();
    return std::vector<at::Tensor>{out.detach(), h.grad(), w.grad()};
  };
  const auto wanted = gradients([&](const at::Tensor& h, const at::Tensor& w) {
    return at::log_softmax(h.matmul(w.t()), 1).gather(1, targets.unsqueeze(1)).squeeze(1);
  });
  for (const int64_t chunk : {2, 5}) {
    const auto found = gradients([&](const at::Tensor& h, const at::Tensor& w) {
      return chunked_log_probs({h, w, targets}, chunk);
    });
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(found[i].allclose(wanted[i], 1e-5, 1e-6)) << chunk << " " << i;
    }
  }
}

TEST(DpoTest, TheLossComparesLogRatiosOfBothAnswers) {
  const TableModel before(table(1), table(3));
  double wanted = 0;
  for (const int sample : {0, 1}) {
    const auto [chosen, rejected] = scores(policy(), sample);
    const auto [chosen_before, rejected_before] = scores(before, sample);
    wanted -= log_sigmoid(0.3 * (chosen - chosen_before - rejected + rejected_before)) / 2;
  }
  EXPECT_NEAR(loss_of("{type: dpo, beta: 0.3, reference: reference_table}"), wanted, 1e-6);
}

TEST(DpoTest, CrossEntropyOfChosenAnswersIsAMeanOverTheirTokens) {
  const double sft = -(scores(policy(), 0).first + scores(policy(), 1).first) / 3;
  EXPECT_NEAR(loss_of("{type: dpo, sft_weight: 0.5, reference: reference_table}") -
                  loss_of("{type: dpo, reference: reference_table}"),
              0.5 * sft, 1e-6);
}

TEST(DpoTest, TheModelAsItsOwnReferenceHasNoMargin) {
  const std::string reference = "reference: {type: reference_table, shift: 0}}";
  EXPECT_NEAR(loss_of("{type: dpo, " + reference), std::log(2.0), 1e-6);
  EXPECT_NEAR(loss_of("{type: dpo, loss_type: hinge, " + reference), 1, 1e-6);
  EXPECT_NEAR(loss_of("{type: dpo, loss_type: ipo, beta: 0.25, " + reference), 4, 1e-5);
}

TEST(DpoTest, LabelSmoothingAndRobustWeighTheSwappedPair) {
  const PairRatios ratios = {at::tensor({1.0F}), at::tensor({-1.0F}), longs({1}), longs({1})};
  const auto loss = [&](DpoLoss type) {
    return dpo_losses(ratios, {.type = type, .beta = 0.5, .label_smoothing = 0.1}).item<double>();
  };
  EXPECT_NEAR(loss(DpoLoss::kSigmoid), -0.9 * log_sigmoid(1) - 0.1 * log_sigmoid(-1), 1e-6);
  EXPECT_NEAR(loss(DpoLoss::kRobust), (-0.9 * log_sigmoid(1) + 0.1 * log_sigmoid(-1)) / 0.8, 1e-6);
}

TEST(DpoTest, OptionsWithoutEffectAreRefused) {
  EXPECT_EQ(complaint<Task>("{type: dpo, loss_type: hinge, label_smoothing: 0.1}", pairs_context()),
            "recipe.yaml:1:48: error: 'label_smoothing' does not change this 'loss_type'\n"
            "    {type: dpo, loss_type: hinge, label_smoothing: 0.1}\n"
            "                                                   ^\n"
            "  hint: leave it out, or use sigmoid, robust or exo_pair\n");
  EXPECT_NE(complaint<Task>("{type: dpo, loss_type: exo_pair}", pairs_context())
                .find("'exo_pair' needs a 'label_smoothing' above 0"),
            std::string::npos);
}

TEST(DpoTest, TheReferenceIsNeitherTrainedNorSaved) {
  const auto task = build<Task>("{type: dpo, reference: reference_table}", pairs_context());
  ASSERT_EQ(task->models().size(), 1U);
  EXPECT_FALSE(task->models()[0].in_checkpoints);
  EXPECT_FALSE(dynamic_cast<AdapterReference&>(*task).uses_adapter_reference());
  const auto bare = build<Task>("{type: dpo}", pairs_context());
  EXPECT_TRUE(bare->models().empty());
  EXPECT_TRUE(dynamic_cast<AdapterReference&>(*bare).uses_adapter_reference());
}

TEST(DpoTest, EvaluationReturnsRewardsAndLogProbabilities) {
  TableModel model = policy();
  const auto task =
      build<Task>("{type: dpo, beta: 0.5, reference: reference_table}", pairs_context());
  const Evaluation found = task->evaluate(model, two_pairs());
  ASSERT_EQ(found.output.sizes(), (at::IntArrayRef{2, kPairColumns}));
  const double before = scores(TableModel(table(1), table(3)), 1).second;
  const double now = scores(policy(), 1).second;
  EXPECT_NEAR(found.output[1][kRejectedReward].item<double>(), 0.5 * (now - before), 1e-6);
  EXPECT_NEAR(found.output[1][kRejectedLogProb].item<double>(), now, 1e-6);
}

TEST(DpoTest, OtherDataIsRefused) {
  TaskContext texts = pairs_context();
  texts.data.target = {8};
  EXPECT_EQ(complaint<Task>("{type: dpo}", texts),
            "the task 'dpo' needs pairs of a chosen and a rejected answer, but a sample of the "
            "data is I64 [8] with targets [8]");
}

TEST(SimpoTest, TheLossComparesMeansWithAMargin) {
  double wanted = 0;
  const double tokens[2][2] = {{2, 1}, {1, 2}};
  for (const int i : {0, 1}) {
    const auto [chosen, rejected] = scores(policy(), i);
    wanted -= log_sigmoid(2 * (chosen / tokens[i][0] - rejected / tokens[i][1]) - 0.4) / 2;
  }
  EXPECT_NEAR(loss_of("{type: simpo, beta: 2, gamma: 0.4}"), wanted, 1e-6);
}

TEST(OrpoTest, TheLossIsCrossEntropyAndTheOddsRatio) {
  // The prompts are one token, so every token of a chosen sequence but the first is an answer's.
  double wanted = -(scores(policy(), 0).first + scores(policy(), 1).first) / 3;
  const double tokens[2][2] = {{2, 1}, {1, 2}};
  for (const int i : {0, 1}) {
    const auto [chosen, rejected] = scores(policy(), i);
    const auto log_odds = [](double mean) { return mean - std::log(1 - std::exp(mean)); };
    wanted -=
        0.2 * log_sigmoid(log_odds(chosen / tokens[i][0]) - log_odds(rejected / tokens[i][1])) / 2;
  }
  EXPECT_NEAR(loss_of("{type: orpo, beta: 0.2}"), wanted, 1e-5);
}

/// Its reward of a text is the id of its last token.
class LastTokenModel final : public Model {
 public:
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
  at::Tensor forward_batch(const Batch& batch) override {
    return batch.inputs.gather(1, batch.lengths.sub(1).unsqueeze(1)).to(at::kFloat);
  }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "reward"; }
};

TEST(RewardTest, MarginsAreSubtractedFromTheDifferenceOfTheRewards) {
  LastTokenModel model;
  const auto task = build<Task>("reward", pairs_context());
  auto& margins = dynamic_cast<UsesPairMargins&>(*task);
  // The rewards of the two pairs are 3 and 2, and 3 and 2.
  const double without = -log_sigmoid(1);
  EXPECT_NEAR(task->loss(model, two_pairs()).item<double>(), without, 1e-6);
  margins.set_margins([](int64_t id) { return id == 0 ? 0.5 : 2.5; }, nullptr);
  EXPECT_NEAR(task->loss(model, two_pairs()).item<double>(),
              -(log_sigmoid(0.5) + log_sigmoid(-1.5)) / 2, 1e-6);
  EXPECT_NEAR(task->evaluate(model, two_pairs()).loss.item<double>(), without, 1e-6);
  margins.set_margins(nullptr, [](int64_t) { return -1.0; });
  EXPECT_NEAR(task->loss(model, two_pairs()).item<double>(), without, 1e-6);
  const Evaluation evaluated = task->evaluate(model, two_pairs());
  EXPECT_NEAR(evaluated.loss.item<double>(), -log_sigmoid(2), 1e-6);
  EXPECT_EQ(evaluated.output[0][kChosenReward].item<double>(), 3);
  EXPECT_EQ(evaluated.output[0][kRejectedReward].item<double>(), 2);
}

}  // namespace
}  // namespace accel::preference_tasks_test
