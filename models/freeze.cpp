#include "models/freeze.h"

#include <algorithm>

#include "core/model.h"
#include "core/name_pattern.h"
#include "models/module_state.h"

namespace accel {
namespace {

std::vector<std::string> unfrozen_names(const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const NamedTensor& item : parameters) names.push_back(item.name);
  return names;
}

}  // namespace

void freeze_parameters(Model& model, const std::vector<std::string>& patterns, const Span& where) {
  if (patterns.empty()) return;
  const std::vector<NamedTensor> parameters = parameters_of(model);
  std::vector<at::Tensor> frozen;
  Diagnostics problems;
  for (const std::string& pattern : patterns) {
    const size_t before = frozen.size();
    for (const NamedTensor& item : parameters) {
      if (name_matches(pattern, item.name)) frozen.push_back(item.tensor);
    }
    if (frozen.size() > before) continue;
    const UnmatchedPattern unmatched = {pattern, "parameter", unfrozen_names(parameters)};
    problems.error(where, unmatched.message(), unmatched.hint());
  }
  problems.check();
  const bool some_left = std::any_of(parameters.begin(), parameters.end(), [&](const auto& item) {
    const auto same = [&](const at::Tensor& tensor) { return tensor.is_same(item.tensor); };
    return item.tensor.requires_grad() && std::none_of(frozen.begin(), frozen.end(), same);
  });
  if (!some_left) {
    throw RecipeError({{where, "'freeze' leaves no parameter to train",
                        "narrow its patterns so that some of the " +
                            std::to_string(parameters.size()) + " parameters stay out"}});
  }
  for (const at::Tensor& tensor : frozen) tensor.set_requires_grad(false);
  set_training(model, true);
}

}  // namespace accel
