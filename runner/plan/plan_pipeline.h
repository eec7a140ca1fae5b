// Plan of a pipeline: the state of each rank, the idle time, and a drawing of the schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "train/job/job.h"

namespace accel {

/// A rank of the pipeline.
struct PlannedStage {
  std::string blocks;  ///< "blocks 0-3", of several stages "blocks 0-1, 4-5"
  int64_t weights = 0, gradients = 0, optimizer = 0;  ///< bytes
  int64_t alive = 0;  ///< most micro-batches with activations, counted for each of its stages
  /// Activations of one of those, as a share of that of rank 0: by the number of blocks.
  double relative_activations = 1;

  int64_t bytes() const { return weights + gradients + optimizer; }
};

struct PlannedPipeline {
  std::string summary;  ///< schedule, stages and bubble
  std::vector<PlannedStage> ranks;
  std::vector<std::string> drawing;  ///< passes of equal time; the first micro-batches
  PipelineSchedule schedule;
  /// Computation of each stage as a share of rank 0's, and that of all ranks.
  std::vector<double> relative_costs;
  double relative_cost = 1;
};

/// `optimizer_bytes`: of rank 0's state. Null without a pipeline.
std::optional<PlannedPipeline> plan_pipeline(const Job& job, int64_t optimizer_bytes);

/// How many micro-batches a plan runs of a step.
enum class PlanDetail {
  kMeasured,  ///< as many as reach the peak of memory: two per stage, of gpipe all
  /// Two per stage. gpipe keeps the activations of all: those of further ones are extrapolated.
  kExtrapolated,
};

/// Micro-batches that a step needs for the memory and the traffic of one with all of them.
int64_t measured_micro_batches(const Job& job, PlanDetail detail);

}  // namespace accel
