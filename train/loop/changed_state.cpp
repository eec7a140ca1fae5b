#include "train/loop/changed_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/text.h"
#include "train/job/job.h"
#include "train/loop/run_state.h"

namespace accel {
namespace {

/// Whether the change may move parameters to another group, or out of the optimizer.
bool moves_parameters(const RecipeChange& change) {
  const auto has = [&](const char* part) { return change.key.find(part) != std::string::npos; };
  return change.key == "train.freeze" || has(".groups") || has(".layer_decay");
}

bool is_of_callbacks(const RecipeChange& change) {
  return change.key == "callbacks" || change.key.starts_with("callbacks.");
}

/// "2 parameters: 'a', 'b'", at most three names.
std::string parameters_text(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kShown)));
  return std::to_string(names.size()) + (names.size() == 1 ? " parameter: " : " parameters: ") +
         quoted_list(first) + (names.size() > kShown ? ", ..." : "");
}

/// The saved state in the groups of `fresh`, an optimizer before its first step. Hyperparameters of
/// a group are those of the group that its first saved parameter was in.
OptimizerState regrouped(OptimizerState saved, OptimizerState fresh,
                         std::vector<std::string>& lines) {
  struct Saved {
    OptimizerState::ParameterState* state;
    const OptimizerState::Group* group;
  };
  std::map<std::string, Saved> by_name;
  for (OptimizerState::Group& group : saved.groups) {
    for (OptimizerState::ParameterState& item : group.parameters) {
      by_name.insert_or_assign(item.name, Saved{&item, &group});
    }
  }
  std::vector<std::string> added, dropped;
  for (OptimizerState::Group& group : fresh.groups) {
    const OptimizerState::Group* origin = nullptr;
    for (OptimizerState::ParameterState& item : group.parameters) {
      const auto found = by_name.find(item.name);
      if (found == by_name.end()) {
        added.push_back(item.name);
        continue;
      }
      if (!origin) origin = found->second.group;
      item.slots = std::move(found->second.state->slots);
      by_name.erase(found);
    }
    if (origin) group.hyper = origin->hyper;
  }
  for (const auto& [name, item] : by_name) dropped.push_back(name);
  if (!added.empty()) {
    lines.push_back(text("the optimizer starts without state for {}", parameters_text(added)));
  }
  if (!dropped.empty()) {
    lines.push_back(text("the optimizer's state is dropped for {}", parameters_text(dropped)));
  }
  return fresh;
}

/// The weights of the checkpoint by name.
std::map<std::string, at::Tensor> weights_of(const TrainState& state) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& item : state.model) out.emplace(item.name, item.local);
  return out;
}

void complete_callback(const Callback& callback, const std::map<std::string, at::Tensor>& weights,
                       StateDict& saved) {
  StateDict fresh;
  callback.save(fresh);
  saved.numbers.merge(fresh.numbers);
  saved.texts.merge(fresh.texts);
  for (auto& [name, tensor] : fresh.tensors) {
    const auto weight = weights.find(name);
    saved.tensors.try_emplace(name, weight == weights.end() ? tensor : weight->second);
  }
}

}  // namespace

std::vector<std::string> adapt_to_changes(const Job& job, const std::vector<RecipeChange>& changes,
                                          TrainState& state) {
  std::vector<std::string> lines;
  const bool moves = std::any_of(changes.begin(), changes.end(), moves_parameters);
  if (moves) {
    state.optimizer = regrouped(std::move(state.optimizer), job.optimizer->state(), lines);
  }
  if (!moves && std::none_of(changes.begin(), changes.end(), is_of_callbacks)) return lines;
  const std::map<std::string, at::Tensor> weights = weights_of(state);
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    const std::string section = callback_section(job.recipe.callbacks, i);
    if (!state.sections.contains(section)) {
      lines.push_back(text("the callback '{}' starts without state", job.recipe.callbacks[i].type));
    }
    complete_callback(*job.callbacks[i], weights, state.sections[section]);
  }
  return lines;
}

}  // namespace accel
