#include "train/control/live_options.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/recipe/key_lookup.h"
#include "core/recipe/override.h"
#include "train/job/build_optimizers.h"

namespace accel {
namespace {

/// The value of a dotted key, or null.
Node* value_at(Node& tree, const std::string& key) {
  Node* node = &tree;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    if (!node->map()) return nullptr;
    const auto word = key.substr(begin, end - begin);
    const auto found = std::find_if(node->map()->begin(), node->map()->end(),
                                    [&](const Node::Entry& entry) { return entry.key == word; });
    if (found == node->map()->end()) return nullptr;
    node = &found->node;
    begin = end + 1;
  }
  return node;
}

/// The recipe with one more override, read and checked as any recipe.
struct Changed {
  RecipeOptions recipe;
  Node resolved;
};

Changed with_override(const Job& job, const std::string& key, const std::string& command) {
  Diagnostics problems;
  const std::vector<FieldInfo> sections = RecipeOptions::schema().info();
  Reading reading{problems, job.registry, &sections};
  History history;
  Merging merging{history, problems};
  Node tree = job.resolved;
  Override change = parse_override(command, 0, problems);
  problems.check();
  apply_overrides(tree, {change}, merging);
  problems.check();
  Changed changed;
  changed.recipe = read_recipe(tree, job.recipe.name, reading);
  changed.resolved = resolve_recipe(changed.recipe, tree);
  if (!value_at(changed.resolved, key)) {
    throw Error(ExitCode::kRecipe, text("the recipe has no '{}'", key));
  }
  return changed;
}

}  // namespace

const std::vector<std::string>& live_options() {
  static const std::vector<std::string> kLive = {
      "optimizer.lr", "optimizer.weight_decay", "train.max_grad_norm", "train.max_grad_value",
      "eval.every",   "checkpoint.every",       "checkpoint.at_end",   "log.every"};
  return kLive;
}

std::string option_text(const Node& recipe, const std::string& key) {
  Node copy = recipe;
  const Node* node = value_at(copy, key);
  return node ? detail::inline_text(*node) : "";
}

LiveChange read_change(const Job& job, const std::string& command) {
  const size_t equals = command.find('=');
  LiveChange change;
  change.key = command.substr(0, equals);
  if (change.key == "lr") change.key = "optimizer.lr";
  const auto& live = live_options();
  const KeyLookup found = find_key(change.key, RecipeOptions::schema().info(), job.registry);
  if (!found.known) {
    const std::string near = did_you_mean(change.key, live);
    throw Error(ExitCode::kRecipe, text("no recipe has '{}'", change.key),
                near.empty() ? text("the options that can be changed: {}", joined(live)) : near);
  }
  if (equals == std::string::npos ||
      std::find(live.begin(), live.end(), change.key) == live.end()) {
    throw Error(ExitCode::kRecipe, text("'{}' cannot be changed during training", change.key),
                text("the options that can be changed: {}", joined(live)));
  }
  if (job.swapper && change.key.starts_with("optimizer.")) {
    throw Error(ExitCode::kRecipe,
                text("'{}' cannot be changed during training with 'offload: disk', whose scratch "
                     "file has no space for a second optimizer",
                     change.key),
                text("stop the run, and resume it with '{}' and --allow {}",
                     change.key + command.substr(equals), change.key));
  }
  const Changed changed = [&] {
    try {
      return with_override(job, change.key, change.key + command.substr(equals));
    } catch (const RecipeError& error) {
      // No source position: the user sees the one line of the command.
      const Diagnostic& first = error.diagnostics().front();
      throw Error(ExitCode::kRecipe, first.message, first.hint);
    }
  }();
  change.was = option_text(job.resolved, change.key);
  change.is = option_text(changed.resolved, change.key);
  return change;
}

void apply_change(Job& job, const LiveChange& change) {
  Changed changed = with_override(job, change.key, change.command());
  job.recipe.optimizer = changed.recipe.optimizer;
  job.recipe.train.max_grad_norm = changed.recipe.train.max_grad_norm;
  job.recipe.train.max_grad_value = changed.recipe.train.max_grad_value;
  job.recipe.eval.every = changed.recipe.eval.every;
  job.recipe.checkpoint.every = changed.recipe.checkpoint.every;
  job.recipe.checkpoint.at_end = changed.recipe.checkpoint.at_end;
  job.recipe.log.every = changed.recipe.log.every;
  *value_at(job.resolved, change.key) = *value_at(changed.resolved, change.key);
  if (change.key.starts_with("optimizer.")) rebuild_optimizer(job);
}

}  // namespace accel
