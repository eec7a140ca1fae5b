// What is done to a run while faults strike, and what must hold afterwards.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "checkpoint/store.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/sharded_state.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel {

/// Another state of the same step.
inline TrainState second_life(int64_t step) {
  TrainState state = small_state(step);
  state.seed = 99;
  return state;
}

/// A run with checkpoints 10 and 20.
inline void prepare_two(MemoryFiles& files) {
  files.make_dirs("/run");
  files.sync_dir("/");
  CheckpointStore store(files, "/run");
  store.save(small_state(10));
  store.save(small_state(20));
}

/// As prepare_two(), and then the process was killed at call `n` of `act`.
inline void prepare_killed(MemoryFiles& files, int n, void (*act)(CheckpointStore&)) {
  prepare_two(files);
  CheckpointStore store(files, "/run");
  files.lose_power_at(n);
  try {
    act(store);
  } catch (const PowerLoss&) {
  }
  files.plug_in();
}

struct Ordeal {
  const char* name;
  void (*prepare)(MemoryFiles&);
  void (*act)(CheckpointStore&);
};

inline void save_next(CheckpointStore& store) {
  store.save(small_state(30));
}
inline void save_over(CheckpointStore& store) {
  store.save(second_life(20));
}
inline void rotate(CheckpointStore& store) {
  store.retain({.last = 1});
}
inline void save_and_rotate(CheckpointStore& store) {
  save_next(store);
  rotate(store);
}

inline void save_next_sharded(CheckpointStore& store) {
  save_sharded(store, small_state(30), 2);
}
inline void save_over_sharded(CheckpointStore& store) {
  save_sharded(store, second_life(20), 2);
}

constexpr Ordeal kOrdeals[] = {
    {"save", prepare_two, save_next},
    {"save over", prepare_two, save_over},
    {"rotate", prepare_two, rotate},
    {"save and rotate", prepare_two, save_and_rotate},
    {"save of two ranks", prepare_two, save_next_sharded},
    {"save of two ranks over", prepare_two, save_over_sharded},
};

/// Every checkpoint there is must be one of those ever saved, whole; the newest of those that were
/// there before, or a newer one, must be.
inline void expect_sound(MemoryFiles& files, const std::string& when) {
  CheckpointStore store(files, "/run");
  store.recover();
  EXPECT_TRUE(files.list("/run/staging").empty()) << when;
  static std::map<int64_t, std::set<std::string>> known;  // what was ever saved, by step
  for (const CheckpointEntry& entry : store.list()) {
    std::set<std::string>& texts = known[entry.step];
    if (texts.empty()) {
      for (const TrainState& state : {small_state(entry.step), second_life(entry.step)}) {
        texts.insert({text_of(state), text_of(comparable(state))});
      }
    }
    const bool sharded = files.exists(entry.path + "/optimizer_0");
    try {
      const TrainState found = store.load(entry.path);
      EXPECT_TRUE(texts.contains(text_of(sharded ? comparable(found) : found)))
          << when << ", step " << entry.step;
    } catch (const std::exception& error) {
      ADD_FAILURE() << when << ": " << error.what();
    }
  }
  ASSERT_FALSE(store.list().empty()) << when;
  EXPECT_GE(store.list().back().step, 20) << when;
}

}  // namespace accel
