// What a checkpoint store promises on a healthy disk.
#include "checkpoint/store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::store_test {
namespace {

std::vector<int64_t> steps_of(const CheckpointStore& store) {
  std::vector<int64_t> out;
  for (const CheckpointEntry& entry : store.list()) out.push_back(entry.step);
  return out;
}

TEST(CheckpointStoreTest, LoadGivesBackEveryBitOfWhatWasSaved) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  const std::string path = store.save(small_state(7));
  EXPECT_EQ(path, "/run/checkpoints/checkpoint_7");
  EXPECT_EQ(text_of(store.load(path)), text_of(small_state(7)));
}

TEST(CheckpointStoreTest, TiedTensorsShareMemoryAgain) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  const TrainState state = store.load(store.save(small_state(7)));
  EXPECT_EQ(state.model[0].local.data_ptr(), state.model[3].local.data_ptr());
}

TEST(CheckpointStoreTest, AnEmptyStateIsACheckpointToo) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  EXPECT_EQ(text_of(store.load(store.save({}))), text_of(TrainState()));
}

TEST(CheckpointStoreTest, FilesAreThoseOfAccelerateAndTwoOfOurs) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  store.save(small_state(1));
  const std::string folder = "/run/checkpoints/checkpoint_1";
  EXPECT_EQ(files.paths(), (std::vector<std::string>{
                               "/run", "/run/checkpoints", folder, folder + "/accel_run.json",
                               folder + "/accel_run.safetensors", folder + "/model.safetensors",
                               folder + "/optimizer.bin", folder + "/random_states_0.pkl",
                               folder + "/scaler.pt", folder + "/scheduler.bin", "/run/staging"}));
}

TEST(CheckpointStoreTest, FurtherModelsOptimizersAndRegisteredStateHaveAcceleratesFiles) {
  TrainState state = small_state(2);
  state.model.push_back({"critic/bias", floats({2}, 9)});
  state.optimizer.groups.push_back({{{"lr", 0.5}}, {{"critic/bias", {{"slot", floats({2}, 8)}}}}});
  state.base_lrs.push_back(0.5);
  state.lrs.push_back(0.5);
  state.optimizers = {2, 1};
  state.sections["custom/0"] = {{{"baseline", 0.1}}, {{"kind", "mean"}}, {{"t", floats({2}, 7)}}};
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  const std::string folder = store.save(state);
  for (const char* name : {"model.safetensors", "model_1.safetensors", "optimizer_1.bin",
                           "scheduler_1.bin", "custom_checkpoint_0.pkl"}) {
    const std::vector<std::string> paths = files.paths();
    EXPECT_NE(std::find(paths.begin(), paths.end(), folder + "/" + name), paths.end()) << name;
  }
  const TrainState back = store.load(folder);
  state.optimizers.clear();
  EXPECT_EQ(text_of(back), text_of(state));
  EXPECT_EQ(back.model.back().name, "critic/bias");
}

TEST(CheckpointStoreTest, EachFileIsSyncedTheManifestLastAndOnlyThenPublished) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  store.save(small_state(1));
  std::vector<std::string> order;
  for (const std::string& call : files.log()) {
    const bool matters = call.starts_with("sync ") || call.starts_with("rename ");
    if (matters) order.push_back(call);
  }
  const std::string staged = "/run/staging/new_1";
  EXPECT_EQ(order, (std::vector<std::string>{
                       "sync /run", "sync " + staged + "/model.safetensors",
                       "sync " + staged + "/optimizer.bin", "sync " + staged + "/scheduler.bin",
                       "sync " + staged + "/scaler.pt", "sync " + staged + "/random_states_0.pkl",
                       "sync " + staged + "/accel_run.safetensors",
                       "sync " + staged + "/accel_run.json", "sync " + staged, "rename " + staged,
                       "sync /run/checkpoints", "sync /run/staging"}));
}

TEST(CheckpointStoreTest, TheSameStateGivesTheSameBytes) {
  MemoryFiles first, second;
  CheckpointStore(first, "/run").save(small_state(3));
  CheckpointStore(second, "/run").save(small_state(3));
  for (const std::string& path : first.paths()) {
    if (path.find('.') == path.npos) continue;  // a folder
    EXPECT_EQ(first.content(path), second.content(path)) << path;
  }
}

TEST(CheckpointStoreTest, ARemovedRunFolderIsNotCreatedAgain) {
  for (const char* dir : {"/runs/job", "/runs/job/"}) {
    MemoryFiles files;
    CheckpointStore store(files, dir);
    files.make_dirs("/runs/job");
    store.keep_to_run_folder();
    store.save(small_state(1));
    files.remove_tree("/runs/job");
    try {
      store.save(small_state(2));
      ADD_FAILURE() << "saved";
    } catch (const IoError& error) {
      EXPECT_EQ(
          std::string(error.what()),
          text("cannot save checkpoint '{}/checkpoints/checkpoint_2': the run folder is missing",
               dir));
      EXPECT_EQ(error.hint(), "it was removed or moved after the run started");
    }
    EXPECT_TRUE(files.list("/runs").empty());
  }
}

TEST(CheckpointStoreTest, AFileThatCannotBeRemovedIsAnError) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {1, 2}) store.save(small_state(step));
  const auto complaint = [&](int call, const auto& act) -> std::string {
    files.fail_call(call, EROFS);
    try {
      act();
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(1, [&] { store.recover(); }),
            "cannot clean up '/run/staging': cannot list '/run/staging': Read-only file system");
  // Behind the list of checkpoints and the manifests of both, twice.
  EXPECT_EQ(
      complaint(10, [&] { store.retain({.last = 1}, 2); }),
      "cannot delete an old checkpoint: cannot make the folder '/run/staging': Read-only file "
      "system");
}

TEST(CheckpointStoreTest, InspectNeedsNoTensors) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  const TrainState state = store.inspect(store.save(small_state(12)));
  EXPECT_EQ(state.progress, small_state(12).progress);
  EXPECT_EQ(state.recipe, small_state(12).recipe);
  EXPECT_EQ(state.provenance, small_state(12).provenance);
  EXPECT_TRUE(state.model.empty());
}

TEST(CheckpointStoreTest, ListAscendsByStepAndPassesOverOtherNames) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {9, 100, 20}) store.save(small_state(step));
  for (const char* name : {"best", "checkpoint_", "checkpoint_007", "checkpoint_-1",
                           "checkpoint_1x", "checkpoint_99999999999999999999"}) {
    files.make_dirs(std::string("/run/checkpoints/") + name);
  }
  files.create("/run/checkpoints/checkpoint_5");
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{9, 20, 100}));
}

TEST(CheckpointStoreTest, AListOfNoFolderIsEmpty) {
  MemoryFiles files;
  const CheckpointStore store(files, "/run");
  EXPECT_TRUE(store.list().empty());
  EXPECT_FALSE(store.load_newest());
}

TEST(CheckpointStoreTest, ASecondSaveOfAStepReplacesTheFirst) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  TrainState state = small_state(4);
  store.save(state);
  state.seed = 5;
  EXPECT_EQ(text_of(store.load(store.save(state))), text_of(state));
  EXPECT_EQ(files.list("/run/staging").size(), 0U);
}

TEST(CheckpointStoreTest, ADiskWithTooLittleSpaceIsRefusedBeforeAnythingIsWritten) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  store.save(small_state(1));
  files.free_bytes = 1000;
  try {
    store.save(small_state(2));
    FAIL() << "expected an error";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot save checkpoint '/run/checkpoints/checkpoint_2': the disk is too full; it "
              "needs 76998 bytes, 1000 are free");
    EXPECT_EQ(error.hint(), "older checkpoints are unchanged");
  }
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{1}));
}

TEST(CheckpointStoreTest, TheEstimateOfItsSizeIsNotTooLow) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  store.save(small_state(1));
  int64_t written = 0;
  for (const DirEntry& entry : files.list("/run/checkpoints/checkpoint_1")) written += entry.bytes;
  files.free_bytes = written;
  EXPECT_THROW(store.save(small_state(2)), IoError);
}

TEST(CheckpointStoreTest, NewestValidSkipsDamagedOnesAndSaysWhy) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {1, 2, 3}) store.save(small_state(step));
  files.content("/run/checkpoints/checkpoint_3/optimizer.bin").pop_back();
  files.erase("/run/checkpoints/checkpoint_2/accel_run.json");
  std::vector<std::string> reports;
  EXPECT_EQ(store.load_newest([&](const std::string& line) { reports.push_back(line); })->path,
            "/run/checkpoints/checkpoint_1");
  EXPECT_EQ(reports,
            (std::vector<std::string>{
                "skipped step 3: checkpoint '/run/checkpoints/checkpoint_3' is damaged: "
                "'optimizer.bin' has 2716 bytes, 2717 expected",
                "skipped step 2: '/run/checkpoints/checkpoint_2' is not a checkpoint: it has no "
                "'accel_run.json'"}));
}

TEST(CheckpointStoreTest, TheManifestsStepCountsNotThatOfTheName) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {1, 2, 3}) store.save(small_state(step));
  files.rename("/run/checkpoints/checkpoint_1", "/run/checkpoints/checkpoint_99");
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(store.list()[0].path, "/run/checkpoints/checkpoint_99");
  std::vector<std::string> reports;
  const auto report = [&](const std::string& line) { reports.push_back(line); };
  EXPECT_EQ(store.load_newest(report)->path, "/run/checkpoints/checkpoint_3");
  EXPECT_EQ(reports, (std::vector<std::string>{
                         "'/run/checkpoints/checkpoint_99' is at step 1 by its manifest: its name "
                         "is ignored"}));
  store.retain({.last = 2}, 3);
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{2, 3}));
}

TEST(CheckpointStoreTest, OfTwoCopiesOfAStepRetainDeletesBothOrNone) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  store.save(small_state(1));
  files.rename("/run/checkpoints/checkpoint_1", "/run/checkpoints/checkpoint_50");
  for (const int64_t step : {1, 2, 3}) store.save(small_state(step));
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{1, 1, 2, 3}));
  store.retain({.last = 1});
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{3}));
}

TEST(CheckpointStoreTest, RetainKeepsTheLastAndTheBest) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {1, 2, 3, 4, 5}) {
    TrainState state = small_state(step);
    state.metrics["eval/loss"] = step == 2 ? 0.1 : 0.5;
    store.save(state);
  }
  store.retain({.last = 2, .best = 1, .metric = "eval/loss"});
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(files.list("/run/staging").size(), 0U);
}

TEST(CheckpointStoreTest, RetainCountsOnlyWholeCheckpointsAndLeavesOthersAlone) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {1, 2, 3}) store.save(small_state(step));
  files.content("/run/checkpoints/checkpoint_3/model.safetensors").clear();
  files.make_dirs("/run/checkpoints/checkpoint_0");
  store.retain({.last = 1});
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{0, 2, 3}));
}

TEST(CheckpointStoreTest, RetainAfterAFallbackLeavesTheLaterOnesAlone) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  for (const int64_t step : {1, 2, 3, 9}) store.save(small_state(step));
  files.content("/run/checkpoints/checkpoint_9/model.safetensors").back() ^= 1;
  store.retain({.last = 1}, 3);
  EXPECT_EQ(steps_of(store), (std::vector<int64_t>{3, 9}));
}

TEST(CheckpointStoreTest, RecoverRemovesOnlyItsOwnLeftovers) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  store.save(small_state(1));
  for (const char* name : {"new_5", "trash_2", "old_1", "notes"}) {
    files.make_dirs(std::string("/run/staging/") + name);
  }
  store.recover();
  ASSERT_EQ(files.list("/run/staging").size(), 1U);
  EXPECT_EQ(files.list("/run/staging")[0].name, "notes");
}

TEST(CheckpointStoreTest, ATextThatIsNotUtf8IsRefusedBeforeItIsLost) {
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  TrainState state = small_state(1);
  state.sections["x"].texts["y"] = "\xff";
  EXPECT_THROW(store.save(state), std::invalid_argument);
  EXPECT_EQ(files.list("/run/staging").size(), 0U);
}

}  // namespace
}  // namespace accel::store_test
