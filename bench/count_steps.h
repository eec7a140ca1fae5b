// What the steps of a job allocate.
#pragma once

#include <memory>
#include <optional>

#include "bench/allocations.h"
#include "bench/between_steps.h"

namespace accel {

/// Has the job's steps from `first` + 1 to `last` counted, on the thread that trains. `into`
/// outlives the job's run.
inline void count_steps(Job& job, int64_t first, int64_t last, Allocations& into) {
  const auto counting = std::make_shared<std::optional<CountAllocations>>();
  between_steps(
      job, first, last, [counting, &into] { counting->emplace(into); },
      [counting] { counting->reset(); });
}

}  // namespace accel
