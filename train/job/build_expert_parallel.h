// Expert parallelism of a job's model by the recipe's `accelerator.parallelism.ep`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/job/job.h"

namespace accel {

/// Throws RecipeError when `sizes` cannot divide the experts over the data parallel ranks.
void check_expert_mesh(const Node& resolved, const MeshSizes& sizes);

/// Adds the rank of each expert to Job::tensor_cuts. Throws Error (kRecipe) for a model whose
/// experts these ranks cannot divide.
void place_experts(Job& job, const std::vector<Parameter>& parameters);

/// Whether an expert has the parameter.
bool is_of_expert(const Parameter& parameter);

/// Whether the parameter's expert is on another rank.
bool is_absent(const Job& job, const Parameter& parameter);

/// `others` for the parameters of all experts too; those of `trained` are placed. With `reduces`,
/// it already sums the gradients of experts.
std::unique_ptr<Strategy> with_experts(const Job& job, std::unique_ptr<Strategy> others,
                                       const std::vector<Parameter>& trained, const DdpOptions& ddp,
                                       bool reduces);

/// Data parallel training of the parameters of a rank's pipeline stages, `own`, some of experts.
std::unique_ptr<Strategy> build_stage_experts(const Job& job, const std::vector<Parameter>& own,
                                              const DdpOptions& ddp);

/// "4 of 8 experts of a layer per rank, each on 2 ranks; ranks 0 and 1 exchange tokens".
std::string expert_summary(const Job& job);

}  // namespace accel
