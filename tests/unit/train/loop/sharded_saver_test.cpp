// Saves of a sharded state by several ranks, of which one fails.
#include "train/loop/sharded_saver.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/checkpoint/sharded_state.h"
#include "tests/unit/checkpoint/small_state.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::sharded_saver_test {
namespace {

constexpr int64_t kRanks = 2;

/// The disk, of which files with `failing` in their path cannot be created, and which has
/// `free_bytes`.
class FaultyDisk final : public Files {
 public:
  std::string failing = {};
  int64_t free_bytes = int64_t{1} << 40;

  bool threads() const override { return true; }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    if (!failing.empty() && path.find(failing) != path.npos) {
      throw FileError("write", std::filesystem::path(path).filename(), ENOSPC);
    }
    return disk_.create(path);
  }
  SharedBytes read(const std::string& path) override { return disk_.read(path); }
  void make_dirs(const std::string& path, const std::string& within) override {
    disk_.make_dirs(path, within);
  }
  void sync_dir(const std::string& path) override { disk_.sync_dir(path); }
  void rename(const std::string& from, const std::string& to) override { disk_.rename(from, to); }
  void remove_tree(const std::string& path) override { disk_.remove_tree(path); }
  std::vector<DirEntry> list(const std::string& path) override { return disk_.list(path); }
  int64_t free_space(const std::string&) override { return free_bytes; }

 private:
  DiskFiles disk_;
};

/// A rank with its view of the run folder.
struct Rank {
  Rank(Communicator& group, const std::string& run_dir) : store(files, run_dir) {
    job.mesh.world = std::shared_ptr<Communicator>(std::shared_ptr<void>(), &group);
    job.rank = group.rank();
    job.is_main = job.rank == 0;
  }
  TrainState state(int64_t step) const {
    return state_of_rank(small_state(step), job.rank, kRanks);
  }
  void save(ShardedSaver& saver, int64_t step, bool async) const {
    saver.begin(state(step), 4096, async);
    saver.commit(true);
  }

  FaultyDisk files;
  CheckpointStore store;
  Job job;
};

/// Runs `body` on each rank; returns what each has thrown.
std::vector<std::string> run(const std::string& name, const std::function<void(Rank&)>& body) {
  const std::string folder = testing::TempDir() + "sharded_saver/" + name;
  std::filesystem::remove_all(folder);
  return join_each(requests_of(kRanks), [&](Communicator& group) {
    Rank rank(group, folder);
    body(rank);
  });
}

const std::vector<std::string> kNoErrors(kRanks);

std::vector<int64_t> steps(const CheckpointStore& store) {
  std::vector<int64_t> out;
  for (const CheckpointEntry& entry : store.list()) out.push_back(entry.step);
  return out;
}

class ShardedSaverTest : public testing::TestWithParam<bool> {};  // async
INSTANTIATE_TEST_SUITE_P(Modes, ShardedSaverTest, testing::Bool());

TEST_P(ShardedSaverTest, AFailedRankEndsTheSaveOnAllAndLeavesOlderCheckpoints) {
  const std::vector<std::string> errors = run("rank", [](Rank& rank) {
    ShardedSaver saver(rank.job, rank.store, {});
    rank.save(saver, 10, GetParam());
    if (rank.job.rank == 1) rank.files.failing = "pytorch_model_fsdp_0/__1_0.distcp";
    EXPECT_EQ(complaint([&] { rank.save(saver, 20, GetParam()); }),
              "cannot save the checkpoint of step 20: rank 1: cannot write '__1_0.distcp': No "
              "space left on device\n"
              "older checkpoints are unchanged")
        << rank.job.rank;
    rank.job.mesh.world->barrier("the state after the failure");
    EXPECT_EQ(steps(rank.store), std::vector<int64_t>{10});
    EXPECT_FALSE(saver.is_writing());
    rank.job.mesh.world->barrier("the next save");
    rank.files.failing.clear();
    rank.save(saver, 30, GetParam());
    EXPECT_EQ(steps(rank.store), (std::vector<int64_t>{10, 30}));
    EXPECT_NO_THROW(rank.store.verify(rank.store.list().back().path));
    EXPECT_TRUE(
        rank.files.list(folder_of(folder_of(rank.store.list().back().path)) + "/staging").empty());
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST_P(ShardedSaverTest, AFullDiskIsNoticedOnAllRanksBeforeAnyWrites) {
  const std::vector<std::string> errors = run("space", [](Rank& rank) {
    ShardedSaver saver(rank.job, rank.store, {});
    rank.save(saver, 10, GetParam());
    rank.files.free_bytes = 100;
    EXPECT_EQ(complaint([&] { rank.save(saver, 20, GetParam()); }),
              "cannot save checkpoint '" + testing::TempDir() +
                  "sharded_saver/space/checkpoints/checkpoint_20': the disk is too full; it needs "
                  "4096 bytes, 100 are free\n"
                  "older checkpoints are unchanged");
    EXPECT_FALSE(saver.is_writing());
    EXPECT_EQ(steps(rank.store), std::vector<int64_t>{10});
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST_P(ShardedSaverTest, AFailureOfThePublicationReachesAllRanks) {
  const std::vector<std::string> errors = run("publication", [](Rank& rank) {
    ShardedSaver saver(rank.job, rank.store, {});
    rank.save(saver, 10, GetParam());
    if (rank.job.is_main) rank.files.failing = "accel_run.json";
    const std::string message = complaint([&] { rank.save(saver, 20, GetParam()); });
    EXPECT_TRUE(message.starts_with("cannot save checkpoint '" + testing::TempDir() +
                                    "sharded_saver/publication/checkpoints/checkpoint_20': cannot "
                                    "write 'accel_run.json': No space left on device; it needs "))
        << message;
    EXPECT_TRUE(message.ends_with(" are free\nolder checkpoints are unchanged")) << message;
    rank.job.mesh.world->barrier("the state after the failure");
    EXPECT_EQ(steps(rank.store), std::vector<int64_t>{10});
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ShardedSaverTest, TheRunFolderIsSharedByAllRanks) {
  const std::string folder = testing::TempDir() + "sharded_saver/probe";
  std::filesystem::remove_all(folder);
  const std::vector<std::string> errors = join_each(requests_of(kRanks), [&](Communicator& group) {
    Rank same(group, folder);
    ShardedSaver(same.job, same.store, {}).check_shared_folder();
    Rank own(group, folder + std::to_string(group.rank()));
    ShardedSaver saver(own.job, own.store, {});
    EXPECT_EQ(complaint([&] { saver.check_shared_folder(); }),
              "rank 1 does not see the run folder of rank 0, into which it is to write its "
              "shards\n"
              "put the run folder on a file system that all machines share, or set "
              "'accelerator.fsdp.state_dict' to full");
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ShardedSaverTest, TheStateMayChangeOnceItsSnapshotIsTaken) {
  const std::vector<std::string> errors = run("snapshot", [](Rank& rank) {
    ShardedSaver saver(rank.job, rank.store, {});
    TrainState state = rank.state(10);
    const TrainState same = rank.state(10);
    saver.begin(state, 4096, true);
    EXPECT_TRUE(saver.is_writing());
    saver.wait_for_snapshot();
    for (Parameter& item : state.model) {
      if (item.local.defined()) item.local.zero_();
    }
    saver.commit(true);
    const auto saved = rank.store.load_newest();
    ASSERT_TRUE(saved);
    EXPECT_EQ(text_of(comparable(saved->state)), text_of(comparable([] {
                TrainState whole = small_state(10);
                whole.model.pop_back();
                return whole;
              }())));
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ShardedSaverTest, ASaveThatIsNotCommittedPublishesNothing) {
  const std::vector<std::string> errors = run("uncommitted", [](Rank& rank) {
    {
      ShardedSaver saver(rank.job, rank.store, {});
      saver.begin(rank.state(10), 4096, true);
    }
    rank.job.mesh.world->barrier("the end of both savers");
    EXPECT_EQ(steps(rank.store), std::vector<int64_t>());
    if (rank.job.is_main) rank.store.recover();
    rank.job.mesh.world->barrier("recovered");
    ShardedSaver saver(rank.job, rank.store, {});
    rank.save(saver, 10, true);
    EXPECT_EQ(steps(rank.store), std::vector<int64_t>{10});
  });
  EXPECT_EQ(errors, kNoErrors);
}

}  // namespace
}  // namespace accel::sharded_saver_test
