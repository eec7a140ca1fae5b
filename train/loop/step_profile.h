// Profiles some steps of a run with PyTorch's profiler.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>

#include "train/recipe/recipe.h"

namespace accel {

/// Writes `run_dir`/profile/steps_FIRST_to_LAST/rank_N.json, a trace for chrome://tracing or
/// Perfetto, beside it rank_N_operators.csv and, if asked for, rank_N_memory.csv, and logs the most
/// expensive operators. The folder is named after the profiled steps, so that a resumed run keeps
/// earlier profiles. Other steps have no overhead. Failure to write a file is a warning.
class StepProfile {
 public:
  /// `device`: the model's.
  StepProfile(const ProfileSection& section, std::string run_dir, int64_t rank, at::Device device);
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// Call before a step loads its samples.
  void before(int64_t step);
  /// Call after the step; after the last profiled one the files are written.
  void after(int64_t step);
  /// Writes the steps recorded so far when the run ends early.
  void finish();
  /// Warns on rank 0 when the run ended at step `last`, before the first step to profile.
  void warn_if_missed(int64_t last) const;

 private:
  struct Recording;

  bool within(int64_t step) const;

  ProfileSection section_;
  std::string run_dir_;
  int64_t rank_;
  at::Device device_;
  std::unique_ptr<Recording> recording_;  ///< null outside of the profiled steps
};

}  // namespace accel
