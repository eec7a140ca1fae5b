// Simulation of pipeline schedules: time, idle time, and a drawing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace accel {

/// Time of a micro-batch's passes through one stage, in any unit.
struct PassCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;

  double total() const { return forward + backward_input + backward_weight; }
};

/// Of a pass; actions of messages take no time of their rank.
struct TimedPass {
  PipelineAction pass;
  double start;
  double end;
};

struct PipelineTimes {
  std::vector<std::vector<TimedPass>> ranks;

  /// The end of the last pass.
  double makespan() const;
  /// Idle time between the first and the last pass of a rank.
  double idle(int64_t rank) const;
  /// The idle time of the rank that has most: the papers' bubble.
  double bubble() const;
  /// bubble() as a share of the time that its rank takes.
  double bubble_share() const;
};

/// `stages`: the costs of each stage. A message arrives `message` after the pass that makes it.
PipelineTimes simulate(const PipelineSchedule& schedule, const std::vector<PassCosts>& stages,
                       double message = 0);

/// The bubble of the papers, for stages of equal `costs`, messages that take no time, and at least
/// twice as many micro-batches as ranks, for interleaved 1F1B a multiple of them. That of ZB-V is
/// for passes of equal time.
double bubble_formula(PipelineKind kind, const PipelineLayout& layout, const PassCosts& costs);

/// A line for each rank, with a cell per unit of time, of at most `width` characters: "F0", "B0",
/// and for a divided backward pass "I0" and "W0". Several stages of a rank are a, b, c, d.
std::vector<std::string> draw_pipeline(const PipelineSchedule& schedule, size_t width);

}  // namespace accel
