// Data that is no longer where the recipe of a trained model says.
#pragma once

#include <string>

#include "runner/loop/trained_model.h"

namespace accel {

/// Throws DataError for what the eval data of `trained` names and that is not there, with a hint
/// that names `--data`. Nothing without eval data.
void require_eval_data(const TrainedModel& trained);

/// The same of the dataset that reads `--input`, which is its option 'path'.
void require_input(const TrainedModel& trained, const Node& dataset);

/// The same of the tokenizer of the training data, with a hint that names `--tokenizer`.
void require_tokenizer(const TrainedModel& trained);

}  // namespace accel
