// Import of Accelerate's checkpoints into jobs, and its refusals.
#include "compat/accelerate/import_checkpoint.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run_state.h"

namespace accel::import_checkpoint_test {
namespace {

const std::string kModel = "model: {type: mlp, hidden_sizes: [8]}\n";
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
  state.sections.clear();
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
    const std::vector<std::string> lines = import_accelerate_checkpoint(job, "F", allowed, state);
    restore(job, state);
    return joined(lines);
  } catch (const CheckpointError& error) {
    return std::string(error.what()) + "\n" + error.hint();
  }
}

const std::string kWritten = "'F' was written by Accelerate, with 1 process\n";
const std::string kBlind =
    "'scheduler.bin' is a LambdaLR, whose future rates are not in its state: only its current rate "
    "was "
    "compared with the recipe's\n";
std::string assumed(const std::string& step, const std::string& source) {
  return text(
      "assumed, since Accelerate saves neither: step {}, from {}, and 16 samples per step in this "
      "recipe's order\n",
      step, source);
}
const std::string kChanged = "the recipe has changed since the checkpoint:\n  ";
const std::string kConsent = "\nto resume with the new values add --allow ";

TEST(CarryOverTest, TheOptimizersCountIsTheStep) {
  const auto job = job_of(kModel + kAdam + kCosine);
  TrainState state = state_of(*job, 7);
  EXPECT_EQ(joined(import_accelerate_checkpoint(*job, "F", {}, state)),
            kWritten + kBlind + assumed("7", "optimizer.bin"));
  state.accelerate->wrapper = "module.";
  EXPECT_EQ(joined(import_accelerate_checkpoint(*job, "F", {}, state)),
            kWritten + "'module.' is removed from the names of the model\n" + kBlind +
                assumed("7", "optimizer.bin"));
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
  const std::string wanted = "the number of steps done of 'F' is unknown: ";
  const std::string hint = "\nset checkpoint.resume_step=N; 0 starts at the first sample";
  EXPECT_EQ(outcome(*job, state), wanted +
                                      "'scheduler.bin' was stepped 7 times by 2 processes, each of "
                                      "which may step it" +
                                      hint);
  state.accelerate->schedule.reset();
  EXPECT_EQ(outcome(*job, state), wanted + "it has no step count" + hint);
}

TEST(CarryOverTest, TheRecipesStepCounts) {
  const auto job = job_of(kModel + kAdam + "checkpoint: {resume: F, resume_step: 9}\n");
  TrainState state = state_of(*job, 7);
  state.accelerate->not_used = {"custom_checkpoint_0.pkl"};
  state.other_rngs = {state.rng, state.rng};
  EXPECT_EQ(joined(import_accelerate_checkpoint(*job, "F", {}, state)),
            kWritten + kBlind + assumed("9", "the recipe") +
                "not used: 'custom_checkpoint_0.pkl', 'random_states_1.pkl', "
                "'random_states_2.pkl'\n");
  EXPECT_EQ(state.progress.step, 9);
  EXPECT_EQ(state.sections.at("run").numbers.at("updates"), 7);
}

TEST(CarryOverTest, AStepBehindTheEndOfTheRunIsRefused) {
  const auto job = job_of(kModel + kAdam + "checkpoint: {resume: F, resume_step: 11}\n");
  EXPECT_EQ(outcome(*job, state_of(*job, 7)),
            "'checkpoint.resume_step' is 11, but the run ends at step 10\n"
            "set the number of steps done, or a later 'train.until'");
}

TEST(CarryOverTest, TheStateOfFrozenParametersIsNotUsed) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  state.accelerate->frozen = {"embed.weight", "embed.bias"};
  EXPECT_EQ(outcome(*job, state),
            kWritten + kBlind + assumed("7", "optimizer.bin") +
                "not used: the optimizer state of 'embed.weight', 'embed.bias', which this recipe "
                "freezes\n");
}

TEST(CarryOverTest, ATaskStartsWithoutState) {
  const auto job = make_job(kModel + kAdam +
                            "task: {type: reinforce, max_episode_steps: 5}\n"
                            "data: {train: {type: synthetic/cart_pole}, loader: {workers: 0}}\n"
                            "train: {until: 10 steps, batch: 16}\n");
  EXPECT_EQ(outcome(*job, state_of(*job, 7)), kWritten + kBlind + assumed("7", "optimizer.bin") +
                                                  "the task 'reinforce' starts without state: "
                                                  "Accelerate does not save it\n");
}

TEST(CarryOverTest, AMissingFileNeedsConsent) {
  const auto job = job_of(kModel + kAdam + "accelerator: {mixed_precision: fp16}\n");
  TrainState state = state_of(*job, 7);
  state.scaler.reset();
  state.rng = at::Tensor();
  state.accelerate->absent = {"optimizer.bin"};
  state.optimizer.groups.clear();
  EXPECT_EQ(outcome(*job, state),
            "'F' has no 'optimizer.bin', 'random_states_0.pkl', 'scaler.pt' to resume from\n"
            "to start without their state add --allow optimizer.bin --allow "
            "random_states_0.pkl --allow scaler.pt");
  EXPECT_EQ(outcome(*job, state, {"optimizer.bin", "random_states_0.pkl", "scaler.pt"}),
            kWritten + kBlind + assumed("7", "optimizer.bin"));
}

TEST(CarryOverTest, AnotherOptimizerIsToldByItsOptions) {
  const auto adam = job_of(kModel + kAdam), sgd = job_of(kModel + "optimizer: sgd\n"),
             plain = job_of(kModel + "optimizer: {type: adam, lr: 0.5}\n");
  const auto refused = [](const std::string& type, const std::string& differences) {
    return text("'F/optimizer.bin' is of another optimizer than '{}': it {}", type, differences) +
           "\nwrite its optimizer into the recipe, or to start without its state add --allow "
           "optimizer.bin";
  };
  EXPECT_EQ(outcome(*sgd, state_of(*adam, 7)),
            refused("sgd",
                    "has 'amsgrad', 'betas', 'decoupled_weight_decay', 'eps' and lacks "
                    "'dampening', 'momentum', 'nesterov'"));
  EXPECT_EQ(outcome(*plain, state_of(*adam, 7)),
            refused("adam", "has 'decoupled_weight_decay true'"));
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
            "the optimizer's state has 1 groups, the recipe has 2\n");
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
            "current rate was compared with the recipe's\n" +
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
  state.accelerate->schedule->unsupported = true;
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
  state.model.push_back({"extra", state.model[0].local.clone()});
  EXPECT_EQ(outcome(*job, state), "the checkpoint's model has 'extra', which this model lacks\n");
  state = state_of(*job, 7);
  state.model[0].local = state.model[0].local.t();
  EXPECT_EQ(outcome(*job, state),
            "'layers.0.weight' is [8, 784] in the model but [784, 8] in the checkpoint\n");
  state = state_of(*job, 7);
  state.model.erase(state.model.begin());
  EXPECT_EQ(outcome(*job, state), "the checkpoint's model has no 'layers.0.weight'\n");
}

TEST(CarryOverTest, ASecondNameOfATensorIsDropped) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  state.model.push_back({"also.this", state.model[0].local});
  EXPECT_EQ(outcome(*job, state), kWritten + kBlind + assumed("7", "optimizer.bin"));
}

TEST(CarryOverTest, OnlyATiedHeadHasASecondName) {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string sizes =
        "{type: " + family + ", num_layers: 1, num_heads: 1, hidden_size: 4, ";
    const auto tied = [&](const std::string& more) {
      return tied_head(*job_of("model: " + sizes + more + "}\n", "synthetic/addition"));
    };
    EXPECT_NE(tied("tie_embeddings: true"), "");
    EXPECT_EQ(tied("tie_embeddings: false"), "");
  }
}

TEST(CarryOverTest, ATiedHeadGoesByEitherName) {
  const auto job = job_of("model: {type: gpt, num_layers: 1, num_heads: 1, hidden_size: 4}\n",
                          "synthetic/addition");
  ASSERT_EQ(tied_head(*job), "transformer.wte.weight");
  TrainState state = state_of(*job, 2);
  Parameter& embedding = state.model[0];
  ASSERT_EQ(embedding.name, "transformer.wte.weight");
  const std::string fine = kWritten + kBlind + assumed("2", "optimizer.bin");
  embedding.name = "lm_head.weight";
  EXPECT_EQ(outcome(*job, state), fine);
  state.model.push_back({"transformer.wte.weight", state.model[0].local.clone()});
  EXPECT_EQ(outcome(*job, state), fine);
  state.model.back().local = state.model[0].local.add(1);
  EXPECT_EQ(outcome(*job, state),
            "'lm_head.weight' and 'transformer.wte.weight' differ in 'F', but are tied in this "
            "model\ntrain a model that does not tie them");
}

TEST(CarryOverTest, CallbacksStartFromWhatWasCarriedOver) {
  const auto job = job_of(kModel + kAdam + "callbacks: [{type: ema, decay: 0.5}]\n");
  TrainState state = state_of(*job, 7);
  state.model[0].local = state.model[0].local.add(1);
  EXPECT_EQ(joined(import_accelerate_checkpoint(*job, "F", {}, state)),
            kWritten + kBlind + assumed("7", "optimizer.bin") +
                "'callbacks/ema' starts without state: Accelerate does not save it\n");
  EXPECT_TRUE(
      state.sections.at("callbacks/ema").tensors.at("layers.0.weight").equal(state.model[0].local));
}

TEST(CarryOverTest, AGeneratorThatIsNoneIsRefused) {
  const auto job = job_of(kModel + kAdam);
  TrainState state = state_of(*job, 7);
  state.rng = state.rng.narrow(0, 0, 100);
  EXPECT_EQ(outcome(*job, state),
            "the checkpoint's random state does not fit PyTorch's CPU generator\n");
}

}  // namespace
}  // namespace accel::import_checkpoint_test
