// plan.
#include <sstream>

#include "core/log.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/verbs.h"
#include "runner/plan/advice.h"
#include "runner/plan/forecast.h"
#include "runner/plan/machine_memory.h"
#include "runner/plan/plan_text.h"
#include "runner/track/system_metrics.h"

namespace accel {
namespace {

/// Of "1,2,8". Throws Error.
std::vector<int64_t> ranks_of(const std::string& text) {
  std::vector<int64_t> ranks;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const std::optional<int64_t> number = parse_integer({word}).value;
    constexpr int64_t kMost = 1 << 20;
    if (!number || *number < 1 || *number > kMost) {
      throw Error(ExitCode::kRecipe, "'--ranks' has '" + word + "', which is no number of ranks",
                  "give numbers such as '--ranks 1,2,8'");
    }
    ranks.push_back(*number);
  }
  if (ranks.empty()) {
    throw Error(ExitCode::kRecipe, "'--ranks' is empty", "give numbers such as '--ranks 1,2,8'");
  }
  return ranks;
}

std::vector<Advice> advice_for(const RecipeArguments& arguments, const LoadedRecipe& loaded,
                               const PlanPage& page, const Plan& plan) {
  const Replan replan = [&](const std::vector<std::string>& overrides) -> std::optional<Plan> {
    RecipeArguments changed = arguments;
    changed.overrides.insert(changed.overrides.end(), overrides.begin(), overrides.end());
    try {
      const LoadedRecipe other = load_recipe(changed);
      return make_plan(other.options, other.resolved, components(), plan.data, plan.batches.world);
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  return advise(loaded.options, plan, page.process, page.available, replan);
}

ExitCode tell_names(const LoadedRecipe& loaded) {
  const DataFacts data = open_data(loaded.options, loaded.resolved, components());
  const int64_t world = loaded.options.accelerator.num_processes.value_or(1);
  const Plan plan = make_plan(loaded.options, loaded.resolved, components(), data, world);
  for (const std::string& name : plan.names) say(name);
  if (!loaded.options.log.system) return ExitCode::kDone;
  for (const auto& [name, value] : SystemMetrics(".").measure()) say(name);
  return ExitCode::kDone;
}

}  // namespace

ExitCode plan_verb(const RecipeArguments& arguments, const std::string& ranks, bool names) {
  const LoadedRecipe loaded = load_runnable(arguments);
  if (names) return tell_names(loaded);
  tell_layers(arguments, loaded);
  const auto processes = loaded.options.accelerator.num_processes;
  const std::vector<int64_t> worlds =
      ranks.empty() ? std::vector<int64_t>{processes.value_or(1)} : ranks_of(ranks);
  const DataFacts data = open_data(loaded.options, loaded.resolved, components());
  PlanPage page;
  page.name = arguments.path;
  page.model = loaded.options.model.type;
  page.process = static_cast<int64_t>(resident_mib().value_or(0) * (1 << 20)) + kTorchAtWork;
  page.available = available_memory();
  for (const int64_t world : worlds) {
    page.plans.push_back(make_plan(loaded.options, loaded.resolved, components(), data, world));
  }
  page.step_seconds = known_step_seconds("runs/" + loaded.options.name, page.plans.front().batches);
  for (const std::string& line : plan_lines(page)) say(line);
  if (fits(page)) return ExitCode::kDone;
  for (const Plan& plan : page.plans) {
    if (rank_bytes(page, plan) <= page.available) continue;
    for (const std::string& line : advice_lines(advice_for(arguments, loaded, page, plan))) {
      say(line);
    }
    break;
  }
  return ExitCode::kMemory;
}

}  // namespace accel
