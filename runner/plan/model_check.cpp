#include "runner/plan/model_check.h"

#include <algorithm>
#include <optional>

#include "core/recipe/scalar.h"
#include "runner/plan/fake_tensor_mode.h"
#include "runner/plan/small_data.h"

namespace accel {
namespace {

constexpr double kMostBuildSeconds = 5;
constexpr const char* kLora = "model.lora";
constexpr const char* kMesh = "accelerator.parallelism";
constexpr const char* kSharding = "accelerator.fsdp";
constexpr const char* kModelOptions[] = {"train.freeze", "optimizer.groups", kLora, kSharding,
                                         kMesh};
/// Axes that divide a model.
constexpr const char* kModelAxes[] = {"tp", "cp", "sp", "pp", "ep"};

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

/// Whether the number `key` of a map is given and above `least`.
bool is_above(const Node& map, const char* key, int64_t least) {
  const Node::Entry* entry = map.find(key);
  const Scalar* scalar = entry ? entry->node.scalar() : nullptr;
  return scalar && parse_integer(*scalar).value.value_or(least) > least;
}

/// Whether the option has a value that a model is checked against.
bool is_used(const std::string& option, const Node& node) {
  if (option == kLora) return is_above(node, "rank", 0);
  if (option == kSharding) return is_above(node, "stage", 0);
  if (option == kMesh) {
    return std::ranges::any_of(kModelAxes, [&](auto axis) { return is_above(node, axis, 1); });
  }
  return (node.list() && !node.list()->empty()) || (node.map() && !node.map()->empty());
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

/// Of the mesh, where a launcher decides on the number of ranks.
int64_t least_ranks(const RecipeOptions& recipe) {
  const ParallelismSection& axes = recipe.accelerator.parallelism;
  return axes.tp * axes.cp * axes.sp * axes.pp * axes.dp_replicate.value_or(1) *
         std::max(axes.dp_shard.value_or(1), axes.ep);
}

}  // namespace

std::vector<std::string> model_options(const Node& resolved) {
  std::vector<std::string> options;
  for (const char* option : kModelOptions) {
    const Node* node = option_at(resolved, option);
    if (node && is_used(option, *node)) options.emplace_back(option);
  }
  return options;
}

bool check_with_model(const std::vector<std::string>& options, const RecipeOptions& recipe,
                      const Node& resolved, const Registry& registry) {
  const int64_t world = recipe.accelerator.num_processes.value_or(least_ranks(recipe));
  const FakeTimeLimit limit(kMostBuildSeconds);
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
