// What the steps of a job allocate.
#pragma once

#include <memory>
#include <optional>

#include "bench/allocations.h"
#include "core/callback.h"
#include "runner/job/job.h"

namespace accel {

/// Counts from the end of one step to that of another, on the thread that trains.
class CountSteps final : public Callback {
 public:
  CountSteps(int64_t first, int64_t last, Allocations& into)
      : first_(first), last_(last), into_(into) {}

  void on_step(int64_t step) override {
    if (step == first_) counting_.emplace(into_);
    if (step == last_) counting_.reset();
  }

 private:
  int64_t first_, last_;
  Allocations& into_;
  std::optional<CountAllocations> counting_;
};

/// Has the job's steps from `first` + 1 to `last` counted. `into` outlives the job's run.
inline void count_steps(Job& job, int64_t first, int64_t last, Allocations& into) {
  job.callbacks.push_back(std::make_unique<CountSteps>(first, last, into));
  job.recipe.callbacks.push_back({.type = "count_steps", .resolved = {}, .make = {}});
}

}  // namespace accel
