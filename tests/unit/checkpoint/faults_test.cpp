// Saves and rotations that fail or lose power at every single call they make.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <set>

#include "core/error.h"
#include "runner/checkpoint/store.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel {
namespace {

constexpr int kManyCalls = 1000;
constexpr uint64_t kTornStates = 10;

TrainState second_life(int64_t step) {
  TrainState state = small_state(step);
  state.seed = 99;
  return state;
}

/// What happens to a run with checkpoints 10 and 20 while the fault strikes.
struct Ordeal {
  const char* name;
  void (*act)(CheckpointStore&);
};

const Ordeal kOrdeals[] = {
    {"save", [](CheckpointStore& store) { store.save(small_state(30)); }},
    {"save over", [](CheckpointStore& store) { store.save(second_life(20)); }},
    {"retain", [](CheckpointStore& store) { store.retain({.last = 1}); }},
};

void prepare(MemoryFiles& files) {
  CheckpointStore store(files, "/run");
  store.save(small_state(10));
  store.save(small_state(20));
}

/// Every checkpoint there is must be one of those ever saved, whole; at least one must be.
void expect_sound(MemoryFiles& files, const std::string& when) {
  CheckpointStore store(files, "/run");
  store.recover();
  EXPECT_TRUE(files.list("/run/staging").empty()) << when;
  EXPECT_FALSE(store.list().empty()) << when;
  static std::map<int64_t, std::set<std::string>> known;  // what was ever saved, by step
  for (const CheckpointEntry& entry : store.list()) {
    std::set<std::string>& texts = known[entry.step];
    if (texts.empty()) texts = {text_of(small_state(entry.step)), text_of(second_life(entry.step))};
    EXPECT_TRUE(texts.contains(text_of(store.load(entry.path)))) << when << ", step " << entry.step;
  }
  EXPECT_GE(store.list().back().step, 20) << when;
}

TEST(CheckpointFaultTest, AnErrorAtAnyCallLeavesOlderCheckpointsAndNoLitter) {
  for (const Ordeal& ordeal : kOrdeals) {
    for (const int error : {ENOSPC, EIO}) {
      int n = 1;
      for (; n < kManyCalls; ++n) {
        const std::string when = ordeal.name + std::string(", call ") + std::to_string(n);
        MemoryFiles files;
        prepare(files);
        CheckpointStore store(files, "/run");
        files.fail_call(n, error);
        try {
          ordeal.act(store);
        } catch (const IoError& failure) {
          EXPECT_NE(std::string(failure.what()).find(std::strerror(error)), std::string::npos);
        }
        if (!files.fault_fired()) break;
        expect_sound(files, when);
        store.save(small_state(40));
        EXPECT_EQ(text_of(store.load(store.list().back().path)), text_of(small_state(40))) << when;
      }
      EXPECT_GT(n, 5);
      EXPECT_LT(n, kManyCalls);
    }
  }
}

/// The disks that a power loss at call `n` of the ordeal may leave; none when it ended before.
/// Returns how many there are.
int look_at_disks_after_power_loss(const Ordeal& ordeal, int n) {
  MemoryFiles files;
  prepare(files);
  files.sync_dir("/run");
  CheckpointStore store(files, "/run");
  files.lose_power_at(n);
  try {
    ordeal.act(store);
    return 0;
  } catch (const PowerLoss&) {
  }
  int states = 0;
  for (size_t names = 0; names < files.possible_disks(); ++names) {
    for (uint64_t torn = 0; torn < kTornStates; ++torn, ++states) {
      MemoryFiles disk = files;
      disk.reboot(names, torn);
      expect_sound(disk, ordeal.name + std::string(", call ") + std::to_string(n) + ", names " +
                             std::to_string(names) + ", torn " + std::to_string(torn));
    }
  }
  return states;
}

TEST(CheckpointFaultTest, APowerLossAtAnyCallLeavesOldOrNewNeverAMixture) {
  int states = 0;
  for (const Ordeal& ordeal : kOrdeals) {
    int n = 1;
    for (int found = 1; found > 0 && n < kManyCalls; ++n) {
      found = look_at_disks_after_power_loss(ordeal, n);
      states += found;
    }
    EXPECT_LT(n, kManyCalls) << ordeal.name;
  }
  EXPECT_GE(states, 10000);
  RecordProperty("states", states);
}

TEST(CheckpointFaultTest, APublishedCheckpointSurvivesAPowerLossRightAfter) {
  MemoryFiles files;
  prepare(files);
  files.reboot(0);
  const CheckpointStore store(files, "/run");
  EXPECT_EQ(store.load_newest()->path, "/run/checkpoints/checkpoint_20");
}

TEST(CheckpointFaultTest, TheErrorNamesPathReasonNeededAndFreeBytes) {
  MemoryFiles files;
  prepare(files);
  CheckpointStore store(files, "/run");
  for (int n = 1; n < kManyCalls; ++n) {
    files.fail_call(n, ENOSPC);
    try {
      store.save(small_state(30));
      FAIL() << "no write failed";
    } catch (const IoError& error) {
      const std::string text = error.what();
      if (text.find("cannot write") == text.npos) continue;
      EXPECT_EQ(error.code(), ExitCode::kIo);
      EXPECT_EQ(text,
                "cannot save checkpoint '/run/checkpoints/checkpoint_30': cannot write "
                "'/run/staging/new_30/model.safetensors': No space left on device; it needs 76998 "
                "bytes, 1099511627776 are free");
      return;
    }
  }
}

TEST(CheckpointFaultTest, AFileThatFailedToSyncIsNeverSyncedAgain) {
  MemoryFiles files;
  prepare(files);
  CheckpointStore store(files, "/run");
  for (int n = 1;; ++n) {
    files.fail_call(n, EIO);
    const size_t before = files.log().size();
    try {
      store.save(small_state(30));
      break;
    } catch (const IoError&) {
      const std::string failed = files.log()[before + static_cast<size_t>(n) - 1];
      if (!failed.starts_with("sync ")) continue;
      EXPECT_EQ(std::count(files.log().begin() + static_cast<ptrdiff_t>(before), files.log().end(),
                           failed),
                1)
          << failed;
    }
  }
}

}  // namespace
}  // namespace accel
