// A job that only evaluates.
#pragma once

#include <memory>

#include "runner/job/job.h"

namespace accel {

/// A trained model and what its evaluation follows from.
struct EvaluationParts {
  RecipeOptions recipe;  ///< with eval data
  Node resolved;
  DataShape data;  ///< what the model was trained on
  std::unique_ptr<Model> model;
  int64_t world = 1;  ///< ranks of the run, which its batches follow from
};

/// Opens the eval data alone and builds what evaluate() needs of a job: nothing that trains. The
/// batches, the precision and the threads are the run's, so that the numbers are its own. Throws
/// RecipeError and DataError.
std::unique_ptr<Job> evaluation_job(EvaluationParts parts, const Registry& registry);

}  // namespace accel
