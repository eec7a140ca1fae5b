// Pipeline stages of a job's model by the recipe's `accelerator.parallelism.pp`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/pipeline_strategy.h"
#include "train/job/job.h"

namespace accel {

/// Throws RecipeError for options of the recipe that a pipeline does not support.
void check_pipeline(const RecipeOptions& recipe, const Node& resolved);

/// The stages of a model.
struct ModelStages {
  std::vector<Block*> blocks;
  std::vector<int64_t> blocks_per_stage;
  std::vector<StageParameter> parameters;  ///< all, in the order of the model
  std::vector<double> costs;               ///< weights of each stage's matrix products
};

/// By `accelerator.pipeline.blocks`, or of equal cost. Throws RecipeError for a model that is no
/// BlockChain or has too few blocks.
ModelStages divide_into_stages(const Job& job);

/// The strategy for the model of the recipe's optimizer.
std::unique_ptr<Strategy> build_pipeline(const Job& job, uint64_t seed, const DdpOptions& ddp);

/// The schedule of a step, for screens.
PipelineSchedule pipeline_schedule(const AcceleratorSection& section, int64_t micro_batches);

/// The idle share of a step with stages of these costs, whose backward passes take twice the time
/// of forward ones.
double pipeline_bubble(const PipelineSchedule& schedule, const std::vector<double>& costs);

/// "1f1b, 2 stages of 6 and 5 blocks, bubble 11 % of a step".
std::string pipeline_summary(const Job& job);

}  // namespace accel
