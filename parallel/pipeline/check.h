// Check of pipeline schedules: complete, free of deadlocks, within the memory limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace accel {

/// The first fault, or null: a pass that is missing or repeated, backward passes out of the order
/// of micro-batches, a message whose receive is missing or in another order than its send, a
/// deadlock, and more activations than `most_alive` of each rank.
std::optional<std::string> find_fault(const PipelineSchedule& schedule,
                                      const std::vector<int64_t>& most_alive);

/// Throws std::logic_error for a fault of make_pipeline_schedule().
void check_pipeline_schedule(PipelineKind kind, const PipelineSchedule& schedule);

}  // namespace accel
