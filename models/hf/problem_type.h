// `problem_type` of transformers' sequence and image classifiers, which chooses the loss.
#pragma once

#include <string>

#include "core/api/data_shape.h"
#include "core/recipe/schema.h"
#include "models/hf/hf_config.h"

namespace accel {

enum class ProblemType { kRegression, kSingleLabel, kMultiLabel };

template <>
struct EnumNames<ProblemType> {
  static constexpr std::pair<ProblemType, const char*> kValues[] = {
      {ProblemType::kRegression, "regression"},
      {ProblemType::kSingleLabel, "single_label_classification"},
      {ProblemType::kMultiLabel, "multi_label_classification"}};
};

/// `problem_type` of a config. Another text is a problem of the config.
Auto<ProblemType> problem_type_in(HfConfig& config);

/// The task of a classifier: that of `problem_type`, or as transformers decides without it:
/// regression of one number, classification of integers, multi-label classification of several
/// numbers.
const char* classifier_task(const Auto<ProblemType>& problem_type, const DataShape& data);

/// The `problem_type` of a task; "" for other tasks.
std::string problem_type_of_task(const std::string& task);

/// Declares the option `problem_type` of a classifier.
template <class Options>
Schema<Options> with_problem_type(Schema<Options> schema) {
  return std::move(schema)
      .field("problem_type", &Options::problem_type,
             "The task of a recipe that names none. auto: regression of one number, "
             "single_label_classification of class labels, multi_label_classification of several "
             "numbers, each 0 or 1; several other numbers need regression.")
      .on_resume(Change::kFree);
}

}  // namespace accel
