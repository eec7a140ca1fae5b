// Builds a job from a recipe.
#pragma once

#include <functional>
#include <memory>

#include "core/api/text_generator.h"
#include "train/job/job.h"

namespace accel {

/// Makes a model's text generator; null for a model or data without texts. Throws DataError.
using TextGeneratorFactory = std::function<std::unique_ptr<TextGenerator>(
    Model& model, const Node& recipe, const DataShape& data)>;

/// Opens the data, seeds the generators and builds all components except those that write to the
/// disk. Throws RecipeError or DataError before anything is written. All ranks of `world` build the
/// same. `texts` is for callbacks that generate.
std::unique_ptr<Job> build_job(RecipeOptions recipe, Node resolved, const Registry& registry,
                               const World& world = {}, const TextGeneratorFactory& texts = {});

/// Builds the metrics of a job with eval data, by default those of its task. Throws RecipeError for
/// a metric that does not fit the task.
void build_metrics(Job& job, const Registry& registry);

}  // namespace accel
