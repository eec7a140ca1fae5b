// What a checkpoint takes of a job, for Python to resume from.
#include "train/loop/run_state.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::run_state_test {
namespace {

/// The state after `updates` updates in `updates` + 3 steps of 20.
TrainState state_of(const std::string& scheduler, int64_t updates) {
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 40}, loader: {workers: 0}}\n"
      "optimizer: {type: sgd, lr: 0.5}\n"
      "train: {until: 20 steps, batch: 16}\n"
      "scheduler: " +
      scheduler + "\n");
  RunState run;
  run.updates = updates;
  run.progress.step = updates + 3;
  return capture(*job, run, {});
}

double hyper_of(const TrainState& state, const std::string& key) {
  for (const auto& [name, value] : state.optimizer.groups.at(0).hyper) {
    if (name == key) return std::get<double>(value);
  }
  return -1;
}

TEST(RunStateTest, TheGroupsHaveTheNextUpdatesRate) {
  const TrainState state = state_of("linear", 5);
  EXPECT_EQ(hyper_of(state, "lr"), 0.375);
  EXPECT_EQ(hyper_of(state, "initial_lr"), 0.5);
  EXPECT_EQ(hyper_of(state, "max_lr"), -1);
  EXPECT_EQ(state.lrs, std::vector<double>{0.375});
  EXPECT_EQ(state.updates, 5);
  EXPECT_TRUE(state.curves.empty());
}

TEST(RunStateTest, OneCyclesTurnsAreInTheGroups) {
  const TrainState state = state_of("one_cycle", 5);
  EXPECT_EQ(hyper_of(state, "initial_lr"), 0.02);
  EXPECT_EQ(hyper_of(state, "max_lr"), 0.5);
  EXPECT_EQ(state.base_lrs, std::vector<double>{0.5});
}

TEST(RunStateTest, AStateWithoutTheSectionOfARunIsRefused) {
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 40}, loader: {workers: 0}}\n"
      "train: {until: 20 steps, batch: 16}\n");
  TrainState state = capture(*job, RunState(), {});
  state.sections.erase("run");
  EXPECT_EQ(complaint([&] { restore(*job, state); }),
            "the checkpoint has no section 'run'\n"
            "it was made by another version or with another recipe");
}

/// With another batch size the run goes on at the sample at which it stopped.
TEST(RunStateTest, ThePlaceInAnEpochIsThatOfSamples) {
  const auto job = [](int batch) {
    return make_job(
        "model: {type: mlp, hidden_sizes: [8]}\n"
        "data: {train: {type: synthetic/glyphs, length: 40}, loader: {workers: 0}}\n"
        "train: {until: 20 steps, batch: " +
        std::to_string(batch) + "}\n");
  };
  RunState run;
  run.progress = {.step = 8, .epoch = 1, .step_in_epoch = 3, .samples = 64, .tokens = 0};
  const TrainState state = capture(*job(8), run, {});
  const auto restored = [&](int batch, std::string& said) {
    const auto next = job(batch);
    testing::internal::CaptureStderr();
    const int64_t step = restore(*next, state).progress.step_in_epoch;
    said = testing::internal::GetCapturedStderr();
    return step;
  };
  std::string said;
  EXPECT_EQ(restored(8, said), 3);
  EXPECT_EQ(restored(4, said), 6);
  EXPECT_EQ(said, "");
  EXPECT_EQ(restored(16, said), 1);
  EXPECT_NE(said.find("'train.batch' was 8: of epoch 1, the 8 samples before sample 24 are trained "
                      "on again"),
            std::string::npos)
      << said;
}

TEST(RunStateTest, TheRecordsMarkIsReadBack) {
  TrainState state;
  EXPECT_EQ(record_mark(state), std::nullopt) << "a checkpoint of 0.1.0";
  const RecordMark mark = {1234567890123, 0xfedcba9876543210};
  save_record_mark(mark, state);
  EXPECT_EQ(record_mark(state), mark);
  state.sections["record"].texts.erase("bytes");
  EXPECT_EQ(complaint([&] { record_mark(state); }),
            "the checkpoint's section 'record' has no length and checksum");
}

TEST(RunStateTest, CurvesEndWithTheRun) {
  EXPECT_EQ(state_of("{type: cosine, warmup: 4 steps}", 5).curves,
            (std::vector<int64_t>{0, 4, 20}));
}

}  // namespace
}  // namespace accel::run_state_test
