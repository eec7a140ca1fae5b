#include "runner/plan/pattern_check.h"

#include <algorithm>

#include "runner/plan/fake_tensor_mode.h"
#include "runner/plan/small_data.h"

namespace accel {
namespace {

constexpr double kMostPatternSeconds = 5;
constexpr const char* kPatternOptions[] = {"train.freeze", "optimizer.groups", "model.lora",
                                           "accelerator.fsdp.ignored"};

/// Null without one.
const Node* option_at(const Node& tree, const std::string& path) {
  const Node* node = &tree;
  size_t begin = 0;
  while (node && begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const Node::Entry* entry = node->find(path.substr(begin, end - begin));
    node = entry ? &entry->node : nullptr;
    begin = end + 1;
  }
  return node;
}

bool is_at(const Span& where, const Node& node) {
  if (node.where == where) return true;
  if (const Node::Map* map = node.map()) {
    return std::any_of(map->begin(), map->end(), [&](const Node::Entry& entry) {
      return entry.where == where || is_at(where, entry.node);
    });
  }
  const Node::List* list = node.list();
  return list && std::any_of(list->begin(), list->end(),
                             [&](const Node& item) { return is_at(where, item); });
}

/// Whether all errors are at these options.
bool is_about(const RecipeError& error, const std::vector<std::string>& options,
              const Node& resolved) {
  const auto& problems = error.diagnostics();
  return std::all_of(problems.begin(), problems.end(), [&](const Diagnostic& problem) {
    return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
      return is_at(problem.where, *option_at(resolved, option));
    });
  });
}

}  // namespace

std::vector<std::string> pattern_options(const Node& resolved) {
  std::vector<std::string> options;
  for (const char* option : kPatternOptions) {
    const Node* node = option_at(resolved, option);
    if (!node) continue;
    const bool has_items =
        (node->list() && !node->list()->empty()) || (node->map() && !node->map()->empty());
    if (has_items) options.emplace_back(option);
  }
  return options;
}

bool check_patterns(const std::vector<std::string>& options, const RecipeOptions& recipe,
                    const Node& resolved, const Registry& registry) {
  const int64_t world = recipe.accelerator.num_processes.value_or(1);
  const FakeTimeLimit limit(kMostPatternSeconds);
  for (const DataSchema& data : small_data(recipe)) {
    try {
      plan_state(recipe, resolved, registry, data, world);
      return true;
    } catch (const RecipeError& error) {
      if (is_about(error, options, resolved)) throw;
    } catch (const std::exception&) {
      // The next sample may fit.
    }
  }
  return false;
}

}  // namespace accel
