// The options of the dataset that reads the input of `accel-run predict`.
#pragma once

#include <string>
#include <vector>

#include "infer/trained_model.h"

namespace accel {

/// The dataset's options for `path`: its type where it is not the recipe's, then those given.
/// Prints the options that are assumed for images. Throws Error(kRecipe) for a dataset without
/// files.
std::vector<std::string> input_words(const TrainedModel& trained, const std::string& path,
                                     const std::vector<std::string>& given);

}  // namespace accel
