// validate, show and why.
#include <iostream>

#include "core/log.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/verbs.h"
#include "runner/cli/world.h"
#include "runner/launch/machine_facts.h"

namespace accel {
namespace {

const Node* value_at(const Node& tree, const std::string& key) {
  const Node* node = &tree;
  size_t begin = 0;
  while (begin <= key.size()) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const std::string word = key.substr(begin, end - begin);
    const Node* next = nullptr;
    if (const Node::Entry* entry = node->find(word)) {
      next = &entry->node;
    } else if (node->list()) {
      const auto index = parse_integer({word}).value;
      const auto size = static_cast<int64_t>(node->list()->size());
      if (index && *index >= 0 && *index < size)
        next = &(*node->list())[static_cast<size_t>(*index)];
    }
    if (!next) return nullptr;
    node = next;
    begin = end + 1;
  }
  return node;
}

const char* effect_text(Assignment::Effect effect) {
  return effect == Assignment::Effect::kSet        ? "sets"
         : effect == Assignment::Effect::kAppended ? "appends"
                                                   : "drops, by changing the type,";
}

}  // namespace

ExitCode validate_verb(const RecipeArguments& arguments) {
  const LoadedRecipe recipe = load_runnable(arguments);
  check_ranks(recipe.options, recipe.resolved);
  tell_layers(arguments, recipe);
  if (recipe.options.accelerator.wanted_device() == DeviceChoice::kCuda && gpus_here() == 0) {
    warn("the recipe wants a GPU, and this machine has none: it is checked for one that has");
  }
  say(arguments.path + ": valid");
  return ExitCode::kDone;
}

ExitCode show_verb(const RecipeArguments& arguments) {
  const LoadedRecipe recipe = load_recipe(arguments);
  for (const std::string& warning : recipe.warnings) warn(warning);
  std::cout << to_yaml(recipe.resolved, &origin_of);
  return ExitCode::kDone;
}

ExitCode why_verb(const RecipeArguments& arguments, const std::string& key) {
  const LoadedRecipe recipe = load_recipe(arguments);
  for (const std::string& warning : recipe.warnings) warn(warning);
  const Node* value = value_at(recipe.resolved, key);
  const History history = assignments_of(recipe.composition.history, key);
  if (!value && history.empty()) {
    throw Error(ExitCode::kRecipe, "the recipe has no '" + key + "'",
                "'accel-run show " + arguments.path + "' prints every key");
  }
  say(key + " is " + (value ? detail::inline_text(*value) : "not there"));
  for (const Assignment& assignment : history) {
    say("  " + origin_of(assignment.value) + " " + effect_text(assignment.effect) + " " +
        assignment.key + ": " + detail::inline_text(assignment.value));
  }
  if (history.empty()) say("  no layer sets it: this is the default");
  return ExitCode::kDone;
}

}  // namespace accel
