// Every disk that a power loss may leave behind, at any call of a save, a rotation or a recovery.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "checkpoint/store.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/ordeals.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::crash_states_test {
namespace {

constexpr int kManyCalls = 1000;
constexpr size_t kAllSubsetsOf = 6;  // unsynced names; of more, prefixes and a choice by chance
constexpr size_t kChosenSubsets = 32;

/// Which of `count` unsynced names may have reached the disk.
std::vector<std::vector<bool>> survivors(size_t count) {
  std::vector<std::vector<bool>> out;
  if (count <= kAllSubsetsOf) {
    for (size_t bits = 0; bits < size_t{1} << count; ++bits) {
      out.emplace_back(count);
      for (size_t i = 0; i < count; ++i) out.back()[i] = (bits >> i & 1) != 0;
    }
    return out;
  }
  for (size_t kept = 0; kept <= count; ++kept) {
    out.emplace_back(count);
    std::fill_n(out.back().begin(), kept, true);
  }
  std::mt19937_64 random(count);
  for (size_t i = 0; i < kChosenSubsets; ++i) {
    out.emplace_back(count);
    for (size_t k = 0; k < count; ++k) out.back()[k] = random() % 2 != 0;
  }
  return out;
}

/// How many disks were looked at, and their digests: equal ones need one look only.
struct Disks {
  int states = 0;
  std::set<uint64_t> seen;
};

/// Looks at every disk a power loss at call `n` of the ordeal may leave. Returns false when the
/// ordeal has fewer calls.
bool look_at_disks(const Ordeal& ordeal, MemoryFiles files, int n, Disks& disks) {
  CheckpointStore store(files, "/run");
  files.lose_power_at(n);
  try {
    ordeal.act(store);
    return false;
  } catch (const PowerLoss&) {
  }
  uint64_t seed = 0;
  for (const std::vector<bool>& kept : survivors(files.unsynced_names())) {
    MemoryFiles disk = files;
    disk.reboot(kept, seed++);
    ++disks.states;
    if (!disks.seen.insert(disk.digest()).second) continue;
    std::string names;
    for (const bool name : kept) names += name ? '1' : '0';
    expect_sound(disk, ordeal.name + std::string(", call ") + std::to_string(n) + ", names " +
                           names + ", seed " + std::to_string(seed));
    if (testing::Test::HasFailure()) return false;  // one is enough
  }
  return true;
}

void look_at_all(const Ordeal& ordeal, Disks& disks) {
  MemoryFiles prepared;
  ordeal.prepare(prepared);
  int n = 1;
  while (n < kManyCalls && look_at_disks(ordeal, prepared, n, disks)) ++n;
  EXPECT_LT(n, kManyCalls) << ordeal.name;
}

void expect_many(const Disks& disks) {
  EXPECT_GE(disks.states, 5000);
  testing::Test::RecordProperty("states", disks.states);
  testing::Test::RecordProperty("distinct", static_cast<int>(disks.seen.size()));
}

TEST(CheckpointCrashTest, APowerLossAtAnyCallLeavesOldOrNewNeverAMixture) {
  Disks disks;
  for (const Ordeal& ordeal : kOrdeals) look_at_all(ordeal, disks);
  expect_many(disks);
}

/// The names that a killed process left are not on the disk yet when the next one starts.
template <void (*act)(CheckpointStore&)>
void look_at_recoveries(Disks& disks) {
  MemoryFiles whole;
  prepare_two(whole);
  const size_t before = whole.log().size();
  CheckpointStore store(whole, "/run");
  act(store);
  static int kill;  // a plain function has no captures
  for (kill = 1; kill <= static_cast<int>(whole.log().size() - before); ++kill) {
    const Ordeal ordeal = {"recover", [](MemoryFiles& files) { prepare_killed(files, kill, act); },
                           [](CheckpointStore& run) { run.recover(); }};
    SCOPED_TRACE("killed at call " + std::to_string(kill));
    look_at_all(ordeal, disks);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CheckpointCrashTest, APowerLossWhileAKilledRunIsCleanedUpCostsNothingEither) {
  Disks disks;
  look_at_recoveries<save_next>(disks);
  look_at_recoveries<save_over>(disks);
  look_at_recoveries<rotate>(disks);
  expect_many(disks);
}

TEST(CheckpointCrashTest, APublishedCheckpointSurvivesAPowerLossRightAfter) {
  MemoryFiles files;
  prepare_two(files);
  files.reboot();
  const CheckpointStore store(files, "/run");
  EXPECT_EQ(store.load_newest()->path, "/run/checkpoints/checkpoint_20");
}

}  // namespace
}  // namespace accel::crash_states_test
