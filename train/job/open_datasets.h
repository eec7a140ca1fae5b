// Opens the datasets of a recipe: selects samples, holds out eval data, and fits values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "train/job/job.h"

namespace accel {

struct OpenedData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  ///< held out; null without `data.split`
  std::string held_out;                 ///< "10 % (stratified by class, seed 0)"
  std::string fitted;                   ///< fitted values of the training samples; may be empty
  std::vector<std::string> notes;       ///< of filled values
};

/// Opens the training data of a job's recipe. Values are fitted to the training samples, unless the
/// job has fitted values. Throws RecipeError and DataError.
OpenedData open_training_data(const Job& job);

/// Opens the eval data that the recipe names, with the job's fitted values; adds its notes to the
/// job. Throws as above.
std::shared_ptr<const Dataset> open_separate_data(Job& job);

}  // namespace accel
