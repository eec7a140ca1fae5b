// Joins the metrics of answers with the questions of the eval data.
#pragma once

#include "train/job/job.h"

namespace accel {

/// After the metrics are built. Throws RecipeError for eval data with unanswerable questions and a
/// metric without a score for them.
void build_answers(Job& job);

}  // namespace accel
