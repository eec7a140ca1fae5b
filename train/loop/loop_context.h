// The training loop's dependencies and its hooks' shared state.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/store.h"
#include "track/record.h"
#include "track/tracker_thread.h"
#include "train/job/job.h"
#include "train/loop/plan_check.h"
#include "train/loop/run_guard.h"
#include "train/loop/run_state.h"
#include "train/step/stopwatch.h"

namespace accel {

/// All of them outlive the loop.
struct LoopContext {
  Job& job;
  CheckpointStore& store;
  RunRecord& record;
  TrackerThread& trackers;
  std::string run_dir = ".";
  bool saves = true;  ///< whether this rank writes checkpoints: rank 0
  const PlanCheck* plan = nullptr;
  RunGuard* guard = nullptr;  ///< of the rank that writes

  /// Before each write to the run folder: throws when it was removed, moved or taken over.
  void check_folder() const {
    if (guard) guard->check();
  }
};

/// The loop's dependencies, state and clock, shared by its hooks.
struct LoopProgress {
  const LoopContext& context;
  RunState& state;
  Stopwatch& watch;
  /// Records the last step, if its loss has not been read from the device yet: call it before its
  /// loss is used and before anything else is recorded. Throws DivergedError.
  const std::function<void()>& settle;
};

}  // namespace accel
