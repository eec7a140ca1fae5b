// Division of a job's model by the recipe's `accelerator.parallelism.tp` and `ep`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/api/tensor_parallel.h"
#include "train/job/job.h"

namespace accel {

/// The cuts of parameters by the model's plan; those that are whole and not partial have none. With
/// `sequence`, activations between the layers are divided along the sequence. Throws Error
/// (kRecipe) for a dimension with fewer rows than ranks, std::logic_error for an entry of the plan
/// without a parameter.
std::map<std::string, TensorCut> tensor_cuts(const std::vector<Parameter>& parameters,
                                             const TensorPlan& plan, int64_t ranks, bool sequence);

/// Replaces each parameter of the job's model that its plan divides by this rank's share, those of
/// experts on other ranks by empty ones, and fills Job::tensor_cuts. Initial values are the shares
/// of those that one process draws or reads; whole deferred parameters get memory one after
/// another. Under `fsdp` shares of deferred parameters stay so; returns the whole ones, which they
/// will read. Throws RecipeError for a model that does not support the parallelism.
std::vector<at::Tensor> divide_model(Job& job);

/// Adds the shape and the placements of Job::tensor_cuts to the parameters that these divide.
void place_tensors(const Job& job, std::vector<Parameter>& parameters);

}  // namespace accel
