#include "checkpoint/background_saver.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>

#include <cerrno>

#include "core/base/error.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::background_saver_test {
namespace {

/// Sets every tensor that an update would change.
void overwrite(const TrainState& state) {
  state.model[0].local.zero_();
  state.optimizer.groups[0].parameters[0].slots[1].local.zero_();
  state.sections.at("callbacks/ema").tensors.at("wte.weight").zero_();
  state.rng.zero_();
}

TEST(SnapshotTest, ACopyIsEqualAndItsOwn) {
  const TrainState state = small_state(3);
  const std::string before = text_of(state);
  Snapshot memory;
  const TrainState copy = memory.take(state);
  EXPECT_EQ(text_of(copy), before);
  EXPECT_EQ(copy.model[0].local.data_ptr(), copy.model[3].local.data_ptr());
  overwrite(state);
  EXPECT_EQ(text_of(copy), before);
}

TEST(SnapshotTest, TheNextCopyTakesTheSameMemory) {
  Snapshot memory;
  const TrainState first = memory.take(small_state(3));
  const void* place = first.optimizer.groups[0].parameters[0].slots[1].local.data_ptr();
  const TrainState second = memory.take(small_state(4));
  EXPECT_EQ(second.optimizer.groups[0].parameters[0].slots[1].local.data_ptr(), place);
  EXPECT_EQ(text_of(second), text_of(small_state(4)));
}

TEST(SnapshotTest, ATensorOfAnotherSizeGetsMemoryOfItsOwn) {
  Snapshot memory;
  memory.take(small_state(3));
  TrainState state = small_state(4);
  state.rng = state.rng.slice(0, 0, 100).clone();
  EXPECT_EQ(text_of(memory.take(state)), text_of(state));
}

struct Disk {
  MemoryFiles files;
  CheckpointStore store{files, "/run"};
};

TEST(BackgroundSaverTest, TheStateMayChangeOnceItIsCopied) {
  Disk run;
  BackgroundSaver saver(run.store, {.last = 2});
  const TrainState state = small_state(10);
  const std::string before = text_of(state);
  saver.begin(state);
  saver.wait_for_snapshot();
  overwrite(state);
  const auto done = saver.wait();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->step, 10);
  EXPECT_EQ(done->path, "/run/checkpoints/checkpoint_10");
  EXPECT_GT(done->seconds, 0);
  EXPECT_EQ(text_of(run.store.load(done->path)), before);
  EXPECT_FALSE(saver.wait());
  EXPECT_FALSE(saver.poll());
}

TEST(BackgroundSaverTest, OlderCheckpointsAreRotatedOut) {
  Disk run;
  BackgroundSaver saver(run.store, {.last = 2});
  for (const int64_t step : {1, 2, 3}) {
    saver.begin(small_state(step));
    saver.wait();
  }
  ASSERT_EQ(run.store.list().size(), 2U);
  EXPECT_EQ(run.store.list().front().step, 2);
}

TEST(BackgroundSaverTest, ADamagedLaterCheckpointDoesNotPushOutTheNewOne) {
  Disk run;
  for (const int64_t step : {5, 20}) run.store.save(small_state(step));
  run.files.content("/run/checkpoints/checkpoint_20/optimizer.bin").back() ^= 1;
  ASSERT_EQ(run.store.load_newest()->path, "/run/checkpoints/checkpoint_5");
  BackgroundSaver saver(run.store, {.last = 1});
  saver.save_now(small_state(10));
  const auto newest = run.store.load_newest();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->path, "/run/checkpoints/checkpoint_10");
}

TEST(BackgroundSaverTest, AnErrorIsThrownWhereTheSaveIsAskedFor) {
  Disk run;
  BackgroundSaver saver(run.store, {.last = 2});
  run.files.fail_call(4, ENOSPC);
  saver.begin(small_state(1));
  EXPECT_NO_THROW(saver.wait_for_snapshot());
  EXPECT_THROW(saver.wait(), IoError);
  EXPECT_FALSE(saver.wait());
  saver.begin(small_state(2));
  EXPECT_EQ(saver.wait()->step, 2);
}

TEST(BackgroundSaverTest, AStateThatCannotBeCopiedHoldsNobodyUp) {
  Disk run;
  BackgroundSaver saver(run.store, {.last = 2});
  TrainState state = small_state(1);
  state.sections["bad"].tensors["meta"] = at::empty({3}, at::TensorOptions().device(at::kMeta));
  saver.begin(state);
  saver.wait_for_snapshot();
  EXPECT_ANY_THROW(saver.wait());
  EXPECT_TRUE(run.store.list().empty());
}

TEST(BackgroundSaverTest, TheEndWaitsForTheSaveUnderWay) {
  Disk run;
  {
    BackgroundSaver saver(run.store, {.last = 2});
    saver.begin(small_state(5));
  }
  EXPECT_EQ(run.store.load_newest()->path, "/run/checkpoints/checkpoint_5");
}

TEST(BackgroundSaverTest, TwoAtOnceIsAMistakeOfTheCaller) {
  Disk run;
  BackgroundSaver saver(run.store, {.last = 2});
  saver.begin(small_state(1));
  EXPECT_THROW(saver.begin(small_state(2)), std::logic_error);
  saver.wait();
}

}  // namespace
}  // namespace accel::background_saver_test
