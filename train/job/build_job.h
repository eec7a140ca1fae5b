// Builds a job from a recipe.
#pragma once

#include <functional>
#include <memory>

#include "core/api/text_generator.h"
#include "train/job/job.h"
#include "train/job/staged_forward.h"

namespace accel {

/// Makes a model's text generator; null for a model or data without texts. `staged`: null without
/// pipeline stages. Throws DataError.
using TextGeneratorFactory = std::function<std::unique_ptr<TextGenerator>(
    Model& model, const Node& recipe, const DataShape& data, const StagedForward& staged)>;

/// Parts of a job from rooms above.
struct JobHooks {
  TextGeneratorFactory texts = {};  ///< for callbacks that generate
  /// Called when the data is open and the model not built; may throw.
  std::function<void(const Job&)> before_model = {};
};

/// Opens the data, seeds the generators and builds all components except those that write to the
/// disk. Throws RecipeError or DataError before anything is written. All ranks of `world` build the
/// same.
std::unique_ptr<Job> build_job(RecipeOptions recipe, Node resolved, const Registry& registry,
                               const World& world = {}, const JobHooks& hooks = {});

/// Builds the metrics of a job with eval data, by default those of its task. Throws RecipeError for
/// a metric that does not fit the task.
void build_metrics(Job& job, const Registry& registry);

}  // namespace accel
