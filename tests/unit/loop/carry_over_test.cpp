// What makes a folder of Accelerate's a checkpoint of a job, and what stands in the way.
#include "runner/loop/carry_over.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "runner/loop/run_state.h"
#include "tests/unit/job/make_job.h"

namespace accel {
namespace {

const std::string kModel = "model: {type: mlp, hidden: [8]}\n";
const std::string kAdam = "optimizer: {type: adamw, lr: 0.5}\n";
const std::string kCosine = "scheduler: {type: cosine}\n";

std::unique_ptr<Job> job_of(const std::string& text, const std::string& data = "synthetic/glyphs") {
  return make_job(text + "data: {train: {type: " + data +
                  ", length: 40}, loader: {workers: 0}}\n"
                  "train: {until: 10 steps, batch: 16}\n");
}

/// What a script with the same parts has saved after `updates` updates.
TrainState state_of(const Job& job, int64_t updates) {
  RunState run;
  run.progress.step = run.updates = updates;
  TrainState state = capture(job, run, {});
  state.parts.clear();
  state.progress = {};
  state.accelerate.emplace();
  state.accelerate->updates = updates;
  state.accelerate->schedule.emplace();
  TorchSchedule& schedule = *state.accelerate->schedule;
  schedule.type = "LambdaLR";
  schedule.steps = updates;
  schedule.base_lrs = state.base_lrs;
  schedule.last_lrs = state.lrs;
  return state;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

/// Message and hint, or what was assumed.
std::string outcome(Job& job, TrainState state, const std::vector<std::string>& allowed = {}) {
  try {
    const std::vector<std::string> lines = carry_over(job, "F", allowed, state);
    restore(job, state);
    return joined(lines);
  } catch (const CheckpointError& error) {
    return std::string(error.what()) + "\n" + error.hint();
  }
}

const std::string kWritten = "'F' was written by Accelerate, with 1 process\n";
const std::string kBlind =
    "'scheduler.bin' is a LambdaLR, which does not keep its curve: only its present rate was "
    "compared with the recipe's\n";
std::string assumed(const std::string& step, const std::string& source) {
  return "assumed, as Accelerate keeps neither: step " + step + ", as " + source +
         " says, and that each step took 16 samples in this recipe's order\n";
}
const std::string kChanged = "the recipe has changed since the checkpoint:\n  ";
const std::string kConsent = "\nto go on with the new values add --allow ";

TEST(CarryOverTest, TheOptimizersCountIsTheStep) {
  const auto job = job_of(kModel + kAdam + kCosine);
  TrainState state = state_of(*job, 7);
  EXPECT_EQ(joined(carry_over(*job, "F", {}, state)),
            kWritten + kBlind + assumed("7", "optimizer.bin"));
  // 40 samples in steps of 16, 16 and 8: three steps an epoch.
  const Progress wanted = {7, 2, 1, 96, 0};
  EXPECT_EQ(state.progress, wanted);
  const RunState run = restore(*job, state);
  EXPECT_EQ(run.updates, 7);
  EXPECT_EQ(run.progress, wanted);
}

TEST(CarryOverTest, ASchedulersCountIsTheStepWhereNoOptimizerCounts) {
  const auto job = job_of(kModel + "optimizer: {type: sgd, lr: 0.5}\n");
  TrainState state = state_of(*job, 7);
  state.accelerate->updates.reset();
  EXPECT_EQ(outcome(*job, state), kWritten + kBlind + assumed("7", "scheduler.bin"));
  state.accelerate->processes = 2;
  const std::string wanted = "'F' does not say how many steps were done: ";
  const std::string hint = "\nsay it with checkpoint.resume_step=N; 0 starts at the first sample";
  EXPECT_EQ(outcome(*job, state), wanted +
                                      "'scheduler.bin' was stepped 7 times by 2 processes, each of "
                                      "which may step it" +
                                      hint);
  state.accelerate->schedule.reset();
  EXPECT_EQ(outcome(*job, state), wanted + "nothing in it counts them" + hint);
}

TEST(CarryOverTest, TheRecipesStepCounts) {
  const auto job = job_of(kModel + kAdam + "checkpoint: {resume: F, resume_step: 9}\n");
  TrainState state = state_of(*job, 7);
  state.accelerate->not_used = {"custom_checkpoint_0.pkl"};
  state.other_rngs = {state.rng, state.rng};
  EXPECT_EQ(joined(carry_over(*job, "F", {}, state)),
            kWritten + kBlind + assumed("9", "the recipe") +
                "not used: 'custom_checkpoint_0.pkl', 'random_states_1.pkl', "
                "'random_states_2.pkl'\n");
  EXPECT_EQ(state.progress.step, 9);
  EXPECT_EQ(state.parts.at("run").numbers.at("updates"), 7);
}

TEST(CarryOverTest, AMissingFileNeedsConsent) {
  const auto job = job_of(kModel + kAdam + "accelerator: {mixed_precision: fp16}\n");
  TrainState state = state_of(*job, 7);
  state.scaler.reset();
  state.rng = at::Tensor();
  state.accelerate->absent = {"optimizer.bin"};
  state.optimizer.groups.clear();
  EXPECT_EQ(outcome(*job, state),
            "'F' has no 'optimizer.bin', 'random_states_0.pkl', 'scaler.pt' to go on from\n"
            "to start afresh what is in there add --allow optimizer.bin --allow "
            "random_states_0.pkl --allow scaler.pt");
  EXPECT_EQ(outcome(*job, state, {"optimizer.bin", "random_states_0.pkl", "scaler.pt"}),
            kWritten + kBlind + assumed("7", "optimizer.bin"));
}

TEST(CarryOverTest, AnotherOptimizerIsToldByItsOptions) {
  const auto adam = job_of(kModel + kAdam), sgd = job_of(kModel + "optimizer: sgd\n"),
             plain = job_of(kModel + "optimizer: {type: adam, lr: 0.5}\n");
  const std::string start = "'F/optimizer.bin' is of another optimizer than ";
  const std::string hint =
      "\nwrite the one that made it into the recipe, or to start it afresh add --allow "
      "optimizer.bin";
  EXPECT_EQ(outcome(*sgd, state_of(*adam, 7)),
            start +
                "'sgd': it has 'amsgrad', 'betas', 'decoupled_weight_decay', 'eps' and lacks "
                "'dampening', 'momentum', 'nesterov'" +
                hint);
  EXPECT_EQ(outcome(*plain, state_of(*adam, 7)),
            start + "'adam': it has 'decoupled_weight_decay true'" + hint);
}

TEST(CarryOverTest, OptionsOfTheOptimizerAreCompared) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  for (auto& [key, value] : state.optimizer.groups[0].hyper) {
    if (key == "betas") value = std::vector<double>{0.8, 0.999};
    if (key == "weight_decay") value = int64_t{0};
    if (key == "fused") value = false;
  }
  const std::string wanted = kChanged +
                             "optimizer.betas: was [0.8, 0.999], is [0.9, 0.999]\n"
                             "  optimizer.weight_decay: was 0, is 0.01" +
                             kConsent + "optimizer.betas --allow optimizer.weight_decay";
  EXPECT_EQ(outcome(*job, state), wanted);
  EXPECT_EQ(outcome(*job, state, {"optimizer"}), kWritten + kBlind + assumed("7", "optimizer.bin"));
}

TEST(CarryOverTest, GroupsMustBeThoseOfTheRecipe) {
  const auto one = job_of(kModel + kAdam);
  const auto two = job_of(kModel +
                          "optimizer: {type: adamw, lr: 0.5, groups: [{match: '*.bias', "
                          "weight_decay: 0}]}\n");
  EXPECT_EQ(outcome(*two, state_of(*one, 7)),
            "the optimizer's state has 1 groups, the recipe makes 2\n");
  TrainState state = state_of(*two, 7);
  for (auto& [key, value] : state.optimizer.groups[0].hyper) {
    if (key == "weight_decay") value = 0.25;
  }
  EXPECT_EQ(outcome(*two, state), kChanged + "optimizer.groups.0.weight_decay: was 0.25, is 0" +
                                      kConsent + "optimizer.groups.0.weight_decay");
}

TEST(CarryOverTest, TheRateToComeMustBeTheRecipes) {
  const auto job = job_of(kModel + kAdam + kCosine);
  TrainState state = state_of(*job, 5);
  state.accelerate->schedule->last_lrs = {0.125};
  EXPECT_EQ(outcome(*job, state), kChanged +
                                      "scheduler: was LambdaLR, with the rate 0.125 for update 6, "
                                      "is cosine, with 0.25" +
                                      kConsent + "scheduler");
  state.accelerate->schedule->last_lrs = {0.25, 0.25};
  EXPECT_EQ(outcome(*job, state),
            "'scheduler.bin' has 2 rates for the 1 groups of the optimizer\n");
  state = state_of(*job, 5);
  state.base_lrs = {0.25};
  EXPECT_EQ(outcome(*job, state),
            kChanged + "optimizer.lr: was 0.25, is 0.5" + kConsent + "optimizer.lr");
}

TEST(CarryOverTest, AKnownCurveIsFollowedToTheEnd) {
  const auto job = job_of(kModel + kAdam + "scheduler: {type: step, every: 8 steps}\n");
  TrainState state = state_of(*job, 5);
  TorchSchedule& schedule = *state.accelerate->schedule;
  schedule.type = "ConstantLR";
  schedule.curve = [](const GroupRates& group, double) { return group.initial; };
  EXPECT_EQ(outcome(*job, state), kChanged +
                                      "scheduler: was ConstantLR, with the rate 0.5 for update 9, "
                                      "is step, with 0.05" +
                                      kConsent + "scheduler");
  schedule.curve = [](const GroupRates& group, double step) {
    return group.initial * (step < 8 ? 1 : 0.1);
  };
  EXPECT_EQ(outcome(*job, state), kWritten + assumed("5", "optimizer.bin"));
  // Two processes, each of which stepped it.
  schedule.steps = 10;
  state.accelerate->processes = 2;
  schedule.curve = [](const GroupRates& group, double step) {
    return group.initial * (step < 16 ? 1 : 0.1);
  };
  EXPECT_EQ(outcome(*job, state),
            "'F' was written by Accelerate, with 2 processes\n" + assumed("5", "optimizer.bin"));
  schedule.steps = 3;  // once per epoch, perhaps
  EXPECT_EQ(outcome(*job, state),
            "'F' was written by Accelerate, with 2 processes\n"
            "'scheduler.bin' was stepped 3 times in 5 updates: only its "
            "present rate was compared with the recipe's\n" +
                assumed("5", "optimizer.bin"));
}

TEST(CarryOverTest, WithoutASchedulerTheRateStays) {
  const auto job = job_of(kModel + kAdam + "scheduler: linear\n");
  TrainState state = state_of(*job, 5);
  state.accelerate->schedule.reset();
  EXPECT_EQ(outcome(*job, state), kChanged +
                                      "scheduler: was none, with the rate 0.25 for update 7, is "
                                      "linear, with 0.2" +
                                      kConsent + "scheduler");
  const auto constant = job_of(kModel + kAdam);
  state = state_of(*constant, 5);
  state.accelerate->schedule.reset();
  EXPECT_EQ(outcome(*constant, state), kWritten + assumed("5", "optimizer.bin"));
}

TEST(CarryOverTest, ASchedulerThatIsNoneOfOursIsNamed) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 5);
  state.accelerate->schedule->type = "CyclicLR";
  state.accelerate->schedule->strange = true;
  EXPECT_EQ(outcome(*job, state),
            kChanged + "scheduler: was CyclicLR, is constant" + kConsent + "scheduler");
}

TEST(CarryOverTest, ACycleOfTheMomentumIsNotOurs) {
  const auto job = job_of(kModel + kAdam + "scheduler: one_cycle\n");
  TrainState state = state_of(*job, 5);
  state.accelerate->schedule->type = "OneCycleLR";
  state.accelerate->schedule->cycles_momentum = true;
  EXPECT_EQ(outcome(*job, state), kChanged +
                                      "scheduler: was OneCycleLR, which cycles the momentum as "
                                      "well, is one_cycle, which does not" +
                                      kConsent + "scheduler");
}

TEST(CarryOverTest, AScalersNumbersAreCompared) {
  const auto job = job_of(kModel + kAdam + "accelerator: {mixed_precision: fp16}\n");
  TrainState state = state_of(*job, 7);
  state.scaler->numbers["scale"] = 12;
  state.scaler->numbers["growth_interval"] = 5;
  EXPECT_EQ(outcome(*job, state), kChanged +
                                      "accelerator.grad_scaler.growth_interval: was 5, is 2000" +
                                      kConsent + "accelerator.grad_scaler.growth_interval");
  EXPECT_EQ(outcome(*job, state, {"accelerator"}),
            kWritten + kBlind + assumed("7", "optimizer.bin"));
  EXPECT_EQ(job->precision->loss_scale(), 12);
  const auto whole = job_of(kModel + kAdam);
  EXPECT_EQ(outcome(*whole, state), kChanged +
                                        "accelerator.mixed_precision: was fp16, with a gradient "
                                        "scaler, is no" +
                                        kConsent + "accelerator.mixed_precision");
}

TEST(CarryOverTest, ModelsMustBeTheSame) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  state.model.push_back({"extra", state.model[0].tensor.clone()});
  EXPECT_EQ(outcome(*job, state), "the checkpoint's model has 'extra', which this model has not\n");
  state = state_of(*job, 7);
  state.model[0].tensor = state.model[0].tensor.t();
  EXPECT_EQ(outcome(*job, state),
            "'layers.0.weight' is [8, 784] in the model but [784, 8] in the checkpoint\n");
  state = state_of(*job, 7);
  state.model.erase(state.model.begin());
  EXPECT_EQ(outcome(*job, state), "the checkpoint's model has no 'layers.0.weight'\n");
}

TEST(CarryOverTest, ASecondNameOfATensorIsDropped) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  state.model.push_back({"also.this", state.model[0].tensor});
  EXPECT_EQ(outcome(*job, state), kWritten + kBlind + assumed("7", "optimizer.bin"));
}

TEST(CarryOverTest, ATiedHeadGoesByEitherName) {
  const auto job =
      job_of("model: {type: gpt, layers: 1, heads: 1, width: 4}\n", "synthetic/addition");
  ASSERT_EQ(tied_head(*job), "transformer.wte.weight");
  TrainState state = state_of(*job, 2);
  NamedTensor& embedding = state.model[0];
  ASSERT_EQ(embedding.name, "transformer.wte.weight");
  const std::string fine = kWritten + kBlind + assumed("2", "optimizer.bin");
  embedding.name = "lm_head.weight";
  EXPECT_EQ(outcome(*job, state), fine);
  state.model.push_back({"transformer.wte.weight", state.model[0].tensor.clone()});
  EXPECT_EQ(outcome(*job, state), fine);
  state.model.back().tensor = state.model[0].tensor.add(1);
  EXPECT_EQ(outcome(*job, state),
            "'lm_head.weight' is not 'transformer.wte.weight' in 'F', but this model has one "
            "tensor for both\ntrain a model that does not tie them");
}

TEST(CarryOverTest, CallbacksStartFromWhatWasCarriedOver) {
  const auto job = job_of(kModel + kAdam + "callbacks: [{type: ema, decay: 0.5}]\n");
  TrainState state = state_of(*job, 7);
  state.model[0].tensor = state.model[0].tensor.add(1);
  EXPECT_EQ(joined(carry_over(*job, "F", {}, state)),
            kWritten + kBlind + assumed("7", "optimizer.bin") +
                "'callbacks/ema' starts here: Accelerate keeps no such state\n");
  EXPECT_TRUE(
      state.parts.at("callbacks/ema").tensors.at("layers.0.weight").equal(state.model[0].tensor));
}

TEST(CarryOverTest, AGeneratorThatIsNoneIsRefused) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  state.rng = state.rng.narrow(0, 0, 100);
  EXPECT_EQ(outcome(*job, state),
            "the checkpoint's random state is none of PyTorch's CPU generator\n");
}

}  // namespace
}  // namespace accel
