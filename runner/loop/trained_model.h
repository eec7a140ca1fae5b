// A model as a checkpoint has it, to be used: without its data and its optimizer.
#pragma once

#include <memory>
#include <string>

#include "core/model.h"
#include "runner/checkpoint/files.h"
#include "runner/job/recipe.h"

namespace accel {

struct TrainedModel {
  std::string folder;  ///< the checkpoint's
  int64_t step = 0;
  RecipeOptions recipe;
  Node resolved;
  DataShape data;     ///< what it was trained on
  int64_t world = 1;  ///< ranks that trained it
  /// In eval mode, with the weights that the run evaluates: the average, where `ema` keeps one.
  std::unique_ptr<Model> model;
};

/// Verifies and reads the checkpoint `folder`. What its recipe names outside of it, such as data or
/// the weights it started from, need no longer be there. Throws CheckpointError.
TrainedModel load_trained(Files& files, const std::string& folder, const Registry& registry);

}  // namespace accel
