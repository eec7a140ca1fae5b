// Records what some steps of a run consist of.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runner/job/recipe.h"

namespace accel {

/// Writes `run_dir`/profile/steps_FIRST_to_LAST/rank_N.json, a trace for chrome://tracing or
/// Perfetto, beside it rank_N_operators.csv and, if asked for, rank_N_memory.csv, and says which
/// operators took the time. The folder is named after the steps that were made, so that a resumed
/// run leaves what the first part wrote. Outside of its steps nothing is watched. What goes wrong
/// with a file is a warning.
class StepProfile {
 public:
  /// `rank` is this process's; `device` where the model is.
  StepProfile(const ProfileSection& section, std::string run_dir, int64_t rank, at::Device device);
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// The step is about to be made, with the reading of its samples.
  void before(int64_t step);
  /// It is made. After the last one of the window the files are written.
  void after(int64_t step);
  /// Writes what there is of a window that the run's end cuts short.
  void finish();
  /// Warns on rank 0 when the run has ended, after `last` steps, before its window began.
  void tell_missed(int64_t last) const;

 private:
  struct Recording;

  bool within(int64_t step) const;

  ProfileSection section_;
  std::string run_dir_;
  int64_t rank_;
  at::Device device_;
  std::unique_ptr<Recording> recording_;  ///< null outside of the window
};

}  // namespace accel
