#include "models/hf/problem_type.h"

#include "core/base/text.h"
#include "models/layers/sizes.h"

namespace accel {
namespace {

struct TaskOfProblem {
  ProblemType type;
  const char* task;
};

constexpr TaskOfProblem kTasks[] = {{ProblemType::kRegression, "regression"},
                                    {ProblemType::kSingleLabel, "classification"},
                                    {ProblemType::kMultiLabel, "multi_label_classification"}};

ProblemType decided(const DataShape& data) {
  if (!has_numeric_targets(data)) return ProblemType::kSingleLabel;
  return output_count(data) > 1 ? ProblemType::kMultiLabel : ProblemType::kRegression;
}

}  // namespace

Auto<ProblemType> problem_type_in(HfConfig& config) {
  const std::string text = config.text("problem_type", "");
  if (text.empty()) return {};
  for (const auto& [type, name] : EnumNames<ProblemType>::kValues) {
    if (text == name) return {type};
  }
  config.refuse(accel::text("'{}' has '{}' for 'problem_type', which transformers lacks",
                            config.path(), text));
  return {};
}

const char* classifier_task(const Auto<ProblemType>& problem_type, const DataShape& data) {
  const ProblemType type = problem_type ? *problem_type : decided(data);
  for (const TaskOfProblem& item : kTasks) {
    if (item.type == type) return item.task;
  }
  return kTasks[1].task;
}

std::string problem_type_of_task(const std::string& task) {
  for (const TaskOfProblem& item : kTasks) {
    if (item.task != task) continue;
    for (const auto& [type, name] : EnumNames<ProblemType>::kValues) {
      if (type == item.type) return name;
    }
  }
  return "";
}

}  // namespace accel
