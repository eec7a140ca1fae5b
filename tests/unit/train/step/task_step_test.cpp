// A step that a task brings itself: several models and optimizers.
#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>

#include <cmath>
#include <stdexcept>

#include "core/base/error.h"
#include "core/recipe/diagnostic.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run_state.h"
#include "train/step/train_step.h"

namespace accel::task_step_test {
namespace {

struct DuelOptions {
  Ref<Model> rival;
  Ref<Optimizer> rival_optimizer;
  std::string first = "rival";
  std::string fault;
};

/// The recipe's model learns the targets, the rival what the recipe's model says.
class Duel final : public Task {
 public:
  static constexpr auto kName = "duel";
  static constexpr auto kSummary = "For tests.";

  static Schema<DuelOptions> schema() {
    return Schema<DuelOptions>()
        .field("rival", &DuelOptions::rival, "Model.")
        .required()
        .field("rival_optimizer", &DuelOptions::rival_optimizer, "Optimizer.")
        .required()
        .field("first", &DuelOptions::first, "Name of the first optimizer that is asked for.")
        .field("fault", &DuelOptions::fault, "What goes wrong in the second update.");
  }

  Duel(const DuelOptions& options, const TaskContext& context)
      : options_(options), rival_(options.rival.make({context.data})) {}

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }
  at::Tensor loss(Model& model, const Batch& batch) override {
    if (options_.fault == "memory") throw std::bad_alloc();
    const at::Tensor loss = model.forward(batch.inputs).sub(batch.targets).square().mean();
    return options_.fault == "nan" ? loss.mul(std::nan("")) : loss;
  }
  Evaluation evaluate(Model& model, const Batch& batch) override {
    return {loss(model, batch), model.forward(batch.inputs)};
  }
  std::vector<std::string> metrics() const override { return {}; }
  std::vector<std::string> default_metrics() const override { return {}; }
  std::vector<TaskModel> models() override {
    std::vector<TaskModel> out = {{"rival", rival_.get()}};
    if (options_.fault == "name") out.push_back({"rival", rival_.get()});
    return out;
  }
  std::vector<TaskOptimizer> optimizers() override {
    std::vector<TaskOptimizer> out = {{"rival", options_.rival_optimizer, {"rival"}}};
    if (options_.fault == "twice") out.push_back({"again", options_.rival_optimizer, {"rival"}});
    if (options_.fault == "stranger") out[0].models = {"stranger"};
    return out;
  }

  double step(StepContext& context) override {
    if (options_.fault == "rows") context.gather_for_metrics({});
    const double gap = context.update(options_.first, [&](const Batch& batch) {
      const at::Tensor wanted = context.model().forward(batch.inputs);
      return rival_->forward(batch.inputs).sub(wanted).square().mean();
    });
    context.log("gap", gap);
    sum_of_gaps_ += gap;
    if (options_.fault == "only rival") return gap;
    return Task::step(context);
  }

  StateDict state() const override {
    StateDict state;
    state.numbers["gaps"] = sum_of_gaps_;
    return state;
  }
  void load(const StateDict& state) override { sum_of_gaps_ = state.numbers.at("gaps"); }

 private:
  DuelOptions options_;
  std::unique_ptr<Model> rival_;
  double sum_of_gaps_ = 0;
};

const Register<Duel> duel;

std::unique_ptr<Job> duel_of(int64_t micro_batch, const std::string& fault = "") {
  return make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "task: {type: duel, rival: {type: mlp, hidden_sizes: [4]}, rival_optimizer: {type: adam, lr: "
      "0.01}, " +
      (fault.empty() ? std::string() : "fault: " + fault + ", ") +
      "first: " + (fault == "unknown" ? "nobody" : "rival") +
      "}\n"
      "data: {train: {type: synthetic/regression, length: 22}, loader: {workers: 0}}\n"
      "optimizer: {type: adam, lr: 0.1}\n"
      "train: {until: 20 steps, batch: 16, micro_batch: " +
      std::to_string(micro_batch) + "}\n");
}

StepResult next_step(Job& job, int64_t step, bool careful = false) {
  Stopwatch watch;
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  return train_step(job, job.train_loader->next(), {.step = step, .careful = careful}, watch);
}

std::map<std::string, at::Tensor> weights_of(const Job& job) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& item : job.parameters) out[item.name] = item.local.detach().clone();
  return out;
}

/// What building or stepping it throws.
std::string complaint_of(const std::string& fault, bool careful = false) {
  try {
    const auto job = duel_of(8, fault);
    next_step(*job, 3, careful);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(StepTest, EachOptimizerTrainsItsOwnModel) {
  const auto job = duel_of(16, "only rival");
  const auto before = weights_of(*job);
  next_step(*job, 1);
  for (const Parameter& item : job->parameters) {
    const bool rival = item.name.starts_with("rival/");
    EXPECT_EQ(!item.local.detach().equal(before.at(item.name)), rival) << item.name;
    EXPECT_FALSE(item.local.grad().defined()) << item.name;
    EXPECT_TRUE(item.local.requires_grad()) << item.name;
  }
}

TEST(StepTest, MicroBatchesEqualOneBigBatchInEveryUpdate) {
  const auto whole = duel_of(16), parts = duel_of(4);
  for (int64_t step = 1; step <= 4; ++step) {
    const StepResult a = next_step(*whole, step), b = next_step(*parts, step);
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * a.loss) << "step " << step;
    EXPECT_NEAR(a.logged.at("gap"), b.logged.at("gap"), 1e-4 * a.logged.at("gap"));
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * a.grad_norm) << "step " << step;
  }
}

TEST(StepTest, TheNormIsOverAllUpdates) {
  const auto both = duel_of(16), one = duel_of(16, "only rival");
  EXPECT_GT(next_step(*both, 1).grad_norm, next_step(*one, 1).grad_norm);
}

TEST(StepTest, StateOfEveryModelOptimizerAndTheTaskComesBack) {
  const auto job = duel_of(8);
  for (int64_t step = 1; step <= 2; ++step) next_step(*job, step);
  RunState run;
  run.progress.step = 2;
  run.progress.epoch = 1;
  const TrainState saved = capture(*job, run, {});
  EXPECT_EQ(saved.optimizers, (std::vector<size_t>{1, 1}));
  EXPECT_GT(saved.sections.at("custom/0").numbers.at("gaps"), 0);
  const auto other = duel_of(8);
  restore(*other, saved);
  EXPECT_EQ(other->task->state().numbers, job->task->state().numbers);
  const StepResult a = next_step(*job, 3), b = next_step(*other, 3);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.logged, b.logged);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  const auto weights = weights_of(*job);
  for (const auto& [name, tensor] : weights_of(*other)) {
    EXPECT_TRUE(tensor.equal(weights.at(name))) << name;
  }
}

TEST(StepTest, RatesOfAllOptimizersFollowTheSchedule) {
  const auto job = duel_of(8);
  EXPECT_EQ(job->optimizer->base_lrs(), (std::vector<double>{0.1, 0.01}));
  job->optimizer->set_lrs(std::vector<double>{0, 0});
  const auto before = weights_of(*job);
  Stopwatch watch;
  train_step(*job, job->train_loader->next(), {.step = 1}, watch);
  for (const auto& [name, tensor] : weights_of(*job)) EXPECT_TRUE(tensor.equal(before.at(name)));
}

TEST(StepTest, ADivergedSecondUpdateTellsWhichWeightsAreNew) {
  EXPECT_EQ(complaint_of("nan"),
            "step 3: the loss is nan; 'rival' is already updated in this step, the other weights "
            "are those of the step before");
}

TEST(StepTest, MemoryThatIsShortInASecondUpdateEndsTheRun) {
  EXPECT_EQ(complaint_of("memory", true), "a micro-batch of 8 samples does not fit into memory");
  try {
    const auto job = duel_of(8, "memory");
    next_step(*job, 1, true);
    FAIL();
  } catch (const OutOfMemory&) {
    FAIL() << "the step cannot be made again";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    EXPECT_EQ(error.hint(), "set a smaller 'train.micro_batch'");
  }
}

TEST(StepTest, PartsOfATaskThatDoNotFitTogetherAreABug) {
  EXPECT_EQ(complaint_of("name"),
            "the task 'duel' has a model 'rival': names must be unique and without '/'");
  EXPECT_EQ(complaint_of("twice"), "two optimizers of the task 'duel' train the model 'rival'");
  EXPECT_EQ(complaint_of("stranger"), "the task 'duel' has no model 'stranger'");
  EXPECT_EQ(complaint_of("unknown"), "the task 'duel' has no optimizer 'nobody'");
  EXPECT_EQ(complaint_of("rows"), "gather_for_metrics() needs rows of 2 micro-batches, not 0");
}

}  // namespace
}  // namespace accel::task_step_test
