// Saves and rotations that fail at every single call they make, in every way a call can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/store.h"
#include "core/base/error.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/ordeals.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::faults_test {
namespace {

constexpr int kManyCalls = 1000;

struct Fault {
  int error;
  int times;
};

constexpr Fault kFaults[] = {
    {ENOSPC, 1},
    {EIO, 1},
    {EDQUOT, 1},
    {EROFS, 1},
    {EMFILE, 1},
    {EINTR, 1},
    {ENOSPC, MemoryFiles::kForever},
    {EROFS, MemoryFiles::kForever},
};

/// Lets call `n` of the ordeal fail. Returns false when it has fewer calls.
bool fail_one(const Ordeal& ordeal, MemoryFiles files, int n, const Fault& fault) {
  const auto [error, times] = fault;
  const std::string when = ordeal.name + std::string(", call ") + std::to_string(n) + ", " +
                           std::strerror(error) + (times > 1 ? " for ever" : "");
  CheckpointStore store(files, "/run");
  files.fail_call(n, error, times);
  try {
    ordeal.act(store);
  } catch (const IoError& failure) {
    const std::string text = failure.what();
    EXPECT_EQ(failure.code(), ExitCode::kIo) << when;
    EXPECT_NE(text.find(std::strerror(error)), text.npos) << when << ": " << text;
    // The first one, unless that was no reason to stop.
    const auto named = [&text](const std::string& path) {
      return text.find("'" + path + "'") != text.npos;
    };
    EXPECT_TRUE(std::ranges::any_of(files.fault_paths(), named)) << when << ": " << text;
  }
  if (!files.fault_fired()) return false;
  files.fail_call(0, 0);
  expect_sound(files, when);
  store.save(small_state(40));
  EXPECT_EQ(text_of(store.load(store.list().back().path)), text_of(small_state(40))) << when;
  return true;
}

TEST(CheckpointFaultTest, AnErrorAtAnyCallLeavesOlderCheckpointsAndNoLitter) {
  int faults = 0;
  for (const Ordeal& ordeal : kOrdeals) {
    MemoryFiles prepared;
    ordeal.prepare(prepared);
    for (const Fault& fault : kFaults) {
      int n = 1;
      while (n < kManyCalls && fail_one(ordeal, prepared, n, fault)) ++n;
      EXPECT_GT(n, 5) << ordeal.name;
      EXPECT_LT(n, kManyCalls) << ordeal.name;
      faults += n - 1;
    }
  }
  EXPECT_GE(faults, 2000);
  RecordProperty("faults", faults);
}

TEST(CheckpointFaultTest, ADiskThatTakesNothingMoreIsToldByTheCallThatFoundOut) {
  MemoryFiles files;
  prepare_two(files);
  CheckpointStore store(files, "/run");
  const auto calls = static_cast<int>(files.log().size());
  save_over(store);
  const auto publishing =
      std::find(files.log().begin() + calls, files.log().end(), "rename /run/staging/new_20");
  files.fail_call(static_cast<int>(publishing - files.log().begin()) - calls + 1, EROFS,
                  MemoryFiles::kForever);
  try {
    save_over(store);
    FAIL() << "saved without a disk";
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot save checkpoint '/run/checkpoints/checkpoint_20': cannot rename "
              "'/run/staging/new_20': Read-only file system; it needs 76998 bytes");
  }
}

TEST(CheckpointFaultTest, TheErrorNamesPathReasonNeededAndFreeBytes) {
  MemoryFiles files;
  prepare_two(files);
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
      EXPECT_EQ(error.hint(), "older checkpoints are unchanged");
      return;
    }
  }
}

TEST(CheckpointFaultTest, AFileThatFailedToSyncIsNeverSyncedAgain) {
  MemoryFiles files;
  prepare_two(files);
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
}  // namespace accel::faults_test
