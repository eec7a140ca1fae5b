// What a trained model makes of samples, one line of JSON each.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/dataset.h"
#include "runner/loop/trained_model.h"

namespace accel {

struct PredictOptions {
  bool probabilities = false;  ///< of every class, not only of the likeliest
};

/// Refuses a model whose task gives nothing to tell per sample. Throws Error (kRecipe).
void check_predicts(const TrainedModel& trained);

/// Calls `line` for each sample in the dataset's order. Samples go through the recipe's transforms
/// as for an evaluation, in batches of its size and in its precision. Classification: the likeliest
/// class and its probability; regression: the numbers; causal_lm: the text's mean loss. Throws
/// DataError for samples unlike those that the model was trained on.
void predict(const TrainedModel& trained, std::shared_ptr<const Dataset> dataset,
             const PredictOptions& options, const std::function<void(const std::string&)>& line);

}  // namespace accel
