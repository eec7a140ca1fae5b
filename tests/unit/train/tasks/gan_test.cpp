#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/task.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/idle_optimizer.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::gan_test {
namespace {

/// Says the first number of a sample.
class FirstNumber final : public Model {
 public:
  static constexpr auto kName = "first_number";
  static constexpr auto kSummary = "For tests.";
  struct Options {
    int64_t unused = 0;
  };
  static Schema<Options> schema() {
    return Schema<Options>().field("unused", &Options::unused, "Nothing.");
  }
  FirstNumber(const Options&, const ModelContext& context) : shape(context.data) {}

  at::Tensor forward(const at::Tensor& inputs) override { return inputs.narrow(1, 0, 1); }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "regression"; }

  DataShape shape;
};
const Register<FirstNumber> first_number;

class Constant final : public Generator {
 public:
  at::Tensor forward(const at::Tensor& noise) override {
    seen = noise;
    return at::full({noise.size(0), 2}, 0.5);
  }
  int64_t latent() const override { return 3; }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "gan"; }

  at::Tensor seen;
};

/// Makes each update of the step as asked, without training.
class Steps final : public StepContext {
 public:
  Steps(Model& model, std::vector<Batch> batches, int64_t step)
      : model_(model), batches_(std::move(batches)), step_(step) {}

  int64_t step() const override { return step_; }
  Model& model() override { return model_; }
  const std::vector<Batch>& micro_batches() const override { return batches_; }
  double update(const std::string& optimizer, const BatchLoss& loss) override {
    updates.push_back(optimizer);
    return loss(batches_[0]).item<double>();
  }
  void log(const std::string& name, double value) override { logged[name] = value; }
  Ranks& ranks() override { throw std::logic_error("not used"); }
  at::Tensor gather_for_metrics(const std::vector<at::Tensor>& rows) override { return rows[0]; }

  std::vector<std::string> updates;
  std::map<std::string, double> logged;

 private:
  Model& model_;
  std::vector<Batch> batches_;
  int64_t step_;
};

std::unique_ptr<Task> gan(const std::string& more = "") {
  TaskContext context;
  context.data.input = {2};
  context.data.classes = 10;
  return build<Task>(
      "{type: gan, discriminator: first_number, discriminator_optimizer: fake" + more + "}",
      context);
}

class FakeOptimizer final : public IdleOptimizer {
 public:
  static constexpr auto kName = "fake";
  static constexpr auto kSummary = "For tests.";
  struct Options {
    double lr = 1;
  };
  static Schema<Options> schema() { return Schema<Options>().field("lr", &Options::lr, "Rate."); }
  FakeOptimizer(const Options&, const OptimizerContext&) {}
};
const Register<FakeOptimizer> fake_optimizer;

/// -log of how likely a score of x makes the right answer.
double cross_entropy(double x, bool real) {
  return std::log1p(std::exp(real ? -x : x));
}

Batch two_samples() {
  return numbered_batch(at::tensor({2.0F, 9.0F, 4.0F, 9.0F}).view({2, 2}), at::zeros({2}));
}

TEST(GanTest, TheDiscriminatorLearnsBothKindsAndTheGeneratorToDeceive) {
  Constant model;
  const auto task = gan();
  Steps steps(model, {two_samples()}, 1);
  EXPECT_NEAR(task->step(steps), cross_entropy(0.5, true), 1e-6);
  EXPECT_EQ(steps.updates, (std::vector<std::string>{"discriminator", "optimizer"}));
  EXPECT_NEAR(steps.logged.at("discriminator_loss"),
              (cross_entropy(2, true) + cross_entropy(4, true)) / 2 + cross_entropy(0.5, false),
              1e-6);
  EXPECT_EQ(model.seen.sizes(), (std::vector<int64_t>{2, 3}));
}

TEST(GanTest, ALowerRealLabelIsAMixture) {
  Constant model;
  const auto task = gan(", real_label: 0.75");
  Steps steps(model, {two_samples()}, 1);
  task->step(steps);
  const double two = 0.75 * cross_entropy(2, true) + 0.25 * cross_entropy(2, false);
  const double four = 0.75 * cross_entropy(4, true) + 0.25 * cross_entropy(4, false);
  EXPECT_NEAR(steps.logged.at("discriminator_loss"), (two + four) / 2 + cross_entropy(0.5, false),
              1e-6);
}

TEST(GanTest, TheGeneratorMayLearnMoreRarelyAndItsLossIsKept) {
  Constant model;
  const auto task = gan(", generator_every: 2"), other = gan(", generator_every: 2");
  Steps second(model, {two_samples()}, 2), third(model, {two_samples()}, 3);
  const double loss = task->step(second);
  other->load(task->state());
  EXPECT_EQ(other->step(third), loss);
  EXPECT_EQ(third.updates, std::vector<std::string>{"discriminator"});
  EXPECT_TRUE(gan()->state().numbers.empty());
  EXPECT_THROW(other->load({}), CheckpointError);
}

TEST(GanTest, EvaluationDrawsTheSameNoiseForASampleWhereverItIs) {
  Constant model;
  const auto task = gan();
  task->evaluate(model, two_samples());
  const at::Tensor both = model.seen;
  Batch second = two_samples();
  second.ids = {1};
  second.inputs = second.inputs.narrow(0, 1, 1);
  task->evaluate(model, second);
  EXPECT_TRUE(model.seen.equal(both.narrow(0, 1, 1)));
}

TEST(GanTest, TheDiscriminatorIsToldWhatItJudges) {
  const auto task = gan();
  ASSERT_EQ(task->models().size(), 1U);
  EXPECT_EQ(task->models()[0].name, "discriminator");
  const auto& shape = static_cast<FirstNumber&>(*task->models()[0].model).shape;
  EXPECT_EQ(shape.target, Shape{1});
  EXPECT_EQ(shape.classes, 0);
  ASSERT_EQ(task->optimizers().size(), 1U);
  EXPECT_EQ(task->optimizers()[0].models, std::vector<std::string>{"discriminator"});
}

TEST(GanTest, AModelThatTakesNoNoiseIsRefused) {
  EchoModel model;
  const auto task = gan();
  try {
    task->loss(model, two_samples());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'gan' needs a model that generates samples from noise, which this model "
                 "does not");
    EXPECT_EQ(error.hint(), "'dcgan_generator' does");
  }
}

}  // namespace
}  // namespace accel::gan_test
