// Loading of a trained model from a checkpoint, without its data and optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/base/files.h"
#include "train/job/job.h"

namespace accel {

struct TrainedModel {
  std::shared_ptr<const Registry> registry;  ///< of the recipe's components
  std::string folder;                        ///< of the checkpoint
  int64_t step = 0;
  RecipeOptions recipe;
  Node resolved;
  DataShape data;                ///< of the training data
  std::string fitted_values;     ///< of the training data; may be empty
  std::string data_fingerprint;  ///< of the training data
  int64_t world = 1;             ///< number of ranks of the run
  /// In eval mode, with the weights of evaluations: the average under `ema`.
  std::unique_ptr<Model> model;
  std::vector<Parameter> task_weights;  ///< of the task's models
};

/// Verifies and reads the checkpoint `folder`. Data and initial weights of its recipe need not
/// exist any more, but its plugins: `registry_of` returns a recipe's components. Throws
/// CheckpointError, also for a changed plugin.
using RegistryOf = std::function<std::shared_ptr<const Registry>(
    const Node& recipe, std::vector<PluginIdentity>& plugins)>;
TrainedModel load_trained(Files& files, const std::string& folder, const RegistryOf& registry_of);

/// Loads the trained weights into the models of the job's task. Throws CheckpointError.
void load_task_models(Job& job, const std::vector<Parameter>& task_weights);

}  // namespace accel
