#include "train/loop/loader_seeds.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include "data/loader/epoch_order.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/torch_setup.h"
#include "train/loop/run.h"

namespace accel::loader_seeds_test {
namespace {

constexpr auto kShared = "compat: {dataloader_generator: shared}\n";
constexpr auto kRandom = "compat: {dataloader_generator: shared, use_seedable_sampler: false}\n";

/// Epochs of four steps, of which the last is short; evaluations every fifth step and epoch.
std::string recipe(const std::string& compat) {
  return "model: {type: mlp, hidden_sizes: [8], dropout: 0.5}\n"
         "data: {train: {type: synthetic/glyphs, length: 60}, eval: {type: synthetic/glyphs, "
         "length: 20}, loader: {workers: 2}}\n"
         "train: {until: 3 epochs, batch: 16}\n"
         "eval: {every: [5 steps, 1 epoch]}\n"
         "accelerator: {num_cpu_threads_per_process: 1, kernels: reference}\n" +
         compat;
}

struct Result {
  std::vector<at::Tensor> weights;
  at::Tensor generator;
};

Result run_to(Job& job, const std::string& run_dir, std::optional<int64_t> stop_after = {}) {
  RunRequest request;
  request.run_dir = run_dir;
  request.stop_after = stop_after;
  run_job(job, request);
  Result result;
  for (const Parameter& item : job.parameters)
    result.weights.push_back(item.local.detach().clone());
  result.generator = generator_state();
  return result;
}

Result run_to(const std::string& compat, const std::string& run_dir,
              std::optional<int64_t> stop_after = {}) {
  return run_to(*make_job(recipe(compat)), run_dir, stop_after);
}

void expect_equal(const Result& found, const Result& wanted) {
  ASSERT_EQ(found.weights.size(), wanted.weights.size());
  for (size_t i = 0; i < found.weights.size(); ++i) {
    EXPECT_TRUE(found.weights[i].equal(wanted.weights[i])) << i;
  }
  EXPECT_TRUE(found.generator.equal(wanted.generator));
}

TEST(LoaderSeedsTest, ASeedIsTorchs) {
  seed_generator(7);
  const uint64_t first = draw_seed(), second = draw_seed();
  seed_generator(7);
  for (const uint64_t seed : {first, second}) {
    EXPECT_EQ(static_cast<int64_t>(seed), at::empty({}, at::kLong).random_().item().toLong());
  }
}

TEST(LoaderSeedsTest, AnEpochDrawsTheBaseSeedThenTheSamplers) {
  RunState state;
  const auto own = make_job(recipe(""));
  const at::Tensor before = generator_state();
  draw_epoch_seeds(*own, state);
  draw_evaluation_seed(*own);
  EXPECT_TRUE(generator_state().equal(before));

  const auto job = make_job(recipe(kRandom));
  seed_generator(5);
  draw_seed();
  const uint64_t seed = draw_seed();
  const at::Tensor after = generator_state();
  seed_generator(5);
  draw_epoch_seeds(*job, state);
  EXPECT_TRUE(generator_state().equal(after));
  EXPECT_EQ(state.sampler_seed, seed);
  const std::vector<int64_t> order = permutation(60, seed);
  for (int64_t step = 0; step < 4; ++step) {
    const GlobalBatch batch = job->train_loader->next();
    const std::vector<int64_t>& ids = batch.micro_batches.at(0).ids;
    const auto first = order.begin() + 16 * step;
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), first)) << step;
  }
  EXPECT_FALSE(job->train_loader->has_next());
}

TEST(LoaderSeedsTest, EveryResumeDrawsAsTheStraightRun) {
  const TempFolder folder;
  for (const std::string compat : {kShared, kRandom}) {
    const std::string form = compat == kShared ? "shared" : "random";
    const Result wanted = run_to(compat, folder.path(form));
    // In the middle of an epoch; at an epoch's end, evaluated; evaluated in the middle of an epoch.
    for (const int64_t step : {2, 4, 5, 7, 11}) {
      SCOPED_TRACE(form + " " + std::to_string(step));
      const std::string parts = folder.path(form + std::to_string(step));
      run_to(compat, parts, step);
      expect_equal(run_to(compat, parts), wanted);
    }
  }
}

TEST(LoaderSeedsTest, TheLastEvaluationOfAShorterRunDrawsNothing) {
  const TempFolder folder;
  const Result wanted = run_to(kShared, folder.path("straight"));
  const auto shorter = make_job(recipe(kShared) + "checkpoint: {resume: auto}\n");
  shorter->recipe.train.until = just(6, Duration::Unit::kSteps);
  shorter->length.total_steps = 6;
  run_to(*shorter, folder.path("parts"));
  expect_equal(run_to(kShared, folder.path("parts")), wanted);
}

/// The callback of the recipe, which also delays step 5 until the process must stop.
class Delay final : public Callback {
 public:
  Delay(std::unique_ptr<Callback> inner, std::time_t until)
      : inner_(std::move(inner)), until_(until) {}
  void on_step(int64_t step) override {
    while (step == 5 && std::time(nullptr) <= until_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  void on_eval(int64_t step, const std::map<std::string, double>& results) override {
    inner_->on_eval(step, results);
  }
  void save(StateDict& state) const override { inner_->save(state); }
  void load(const StateDict& state) override { inner_->load(state); }

 private:
  const std::unique_ptr<Callback> inner_;
  const std::time_t until_;
};

TEST(LoaderSeedsTest, AnInterruptedEvaluationDrawsOnce) {
  const TempFolder folder;
  const std::string compat =
      kRandom + std::string("callbacks: [{type: early_stop, patience: 50}]\n");
  const Result wanted = run_to(compat, folder.path("straight"));
  run_to(compat, folder.path("parts"), 4);
  const auto interrupted = make_job(recipe(compat));
  const std::time_t end = std::time(nullptr) + 3;
  auto& callback = interrupted->callbacks.front();
  callback = std::make_unique<Delay>(std::move(callback), end);
  ::setenv("SLURM_JOB_END_TIME", std::to_string(end).c_str(), 1);
  run_to(*interrupted, folder.path("parts"));
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_TRUE(std::filesystem::exists(folder.path("parts/checkpoints/checkpoint_5")));
  expect_equal(run_to(compat, folder.path("parts")), wanted);
}

TEST(LoaderSeedsTest, TheMiddleOfAnEpochWithoutItsSeedIsRefused) {
  const auto seedable = make_job(recipe(kShared));
  RunState run;
  run.progress.step_in_epoch = 2;
  const TrainState state = capture(*seedable, run, {});
  const auto job = make_job(recipe(kRandom));
  EXPECT_EQ(complaint([&] { restore(*job, state); }),
            "the checkpoint is from the middle of an epoch, and has no seed of the epoch's order, "
            "which 'compat.use_seedable_sampler' false needs\n"
            "resume from a checkpoint at the start of an epoch, or set the option to true");
  run.progress.step_in_epoch = 0;
  EXPECT_EQ(restore(*job, capture(*seedable, run, {})).sampler_seed, std::nullopt);
}

TEST(LoaderSeedsTest, SeveralRanksAreRefused) {
  World world;
  world.mesh = data_parallel_mesh(std::make_shared<FakeGroup>(2));
  EXPECT_EQ(complaint([&] { make_job(recipe(kShared), world); }),
            "r.yaml:6:32: error: 'dataloader_generator' shared requires one process, but there are "
            "2: ranks have separate dropout generators, unlike a script's\n"
            "    compat: {dataloader_generator: shared}\n"
            "                                   ^\n"
            "  hint: leave it out, or train in one process\n");
}

}  // namespace
}  // namespace accel::loader_seeds_test
