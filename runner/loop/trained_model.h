// A model as a checkpoint has it, to be used: without its data and its optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "runner/checkpoint/files.h"
#include "runner/job/job.h"

namespace accel {

struct TrainedModel {
  std::shared_ptr<const Registry> registry;  ///< what the recipe's names stand for
  std::string folder;                        ///< the checkpoint's
  int64_t step = 0;
  RecipeOptions recipe;
  Node resolved;
  DataShape data;     ///< what it was trained on
  int64_t world = 1;  ///< ranks that trained it
  /// In eval mode, with the weights that the run evaluates: the average, where `ema` keeps one.
  std::unique_ptr<Model> model;
  std::vector<NamedTensor> task_weights;  ///< of the models that the task brings
};

/// Verifies and reads the checkpoint `folder`. What its recipe names outside of it, such as data or
/// the weights it started from, need no longer be there; its plugins do: `registry_of` knows the
/// components that a recipe can name. Throws CheckpointError, also when a plugin is another one.
using RegistryOf = std::function<std::shared_ptr<const Registry>(
    const Node& recipe, std::vector<PluginIdentity>& plugins)>;
TrainedModel load_trained(Files& files, const std::string& folder, const RegistryOf& registry_of);

/// Gives the models that the job's task brings the weights that they were trained to. Throws
/// CheckpointError.
void load_task_models(Job& job, const std::vector<NamedTensor>& task_weights);

}  // namespace accel
