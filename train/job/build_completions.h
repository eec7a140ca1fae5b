// Connects a task that samples completions to its sampler and its rows.
#pragma once

#include <functional>
#include <memory>

#include "core/api/text_generator.h"
#include "train/job/job.h"

namespace accel {

/// Throws RecipeError where the ranks of `job` cannot predict what its task predicts: targets of
/// different lengths on each rank, while blocks gather their parameters in every pass.
void check_predicts_on_ranks(const Job& job);

/// Sets the sampler of a task whose evaluations generate targets, and the decoding of the metrics
/// of these; other tasks stay. Called after build_metrics(). Throws RecipeError.
void build_targets(Job& job, const std::function<std::unique_ptr<TextGenerator>()>& make);

/// Sets the source of a task that samples completions, and checks that the model, the data and the
/// parallelism fit; other tasks stay. `make`: the generator of the job's model, or null. Throws
/// RecipeError.
void build_completions(Job& job, const std::function<std::unique_ptr<TextGenerator>()>& make);

}  // namespace accel
