// The verb that runs a recipe with many values.
#pragma once

#include <string>

#include "core/error.h"

namespace accel {

struct SweepArguments {
  std::string path;      ///< the sweep's file
  std::string config;    ///< a file that says where to run; empty: none
  bool dry_run = false;  ///< only list the trials
  bool retry = false;    ///< run trials again that failed
};

/// Runs a sweep, or goes on with one, in runs/NAME. kOther when a trial failed or missed
/// what its recipe expects, kInterrupted when
/// it was stopped and can go on. Throws before any trial starts when a trial's recipe is wrong.
ExitCode sweep_verb(const SweepArguments& arguments);

}  // namespace accel
