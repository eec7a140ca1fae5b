#include "runner/cli/sweep_metrics.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "runner/cli/trial.h"
#include "runner/launch/owned_fd.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// What every run logs, but the evaluation, which is checked with the recipe.
const std::set<std::string> kAlwaysLogged = {"eval/loss",   "train/loss",
                                             "train/lr",    "train/grad_norm",
                                             "train/epoch", "train/samples_per_second"};

/// The names that a trial logs; none: it cannot be planned.
std::vector<std::string> names_of_trial(const SweepPlace& place, const Trial& trial) {
  const ScratchFolder scratch;
  const std::string output = (scratch.path() / "names").string();
  const OwnedFd file(::open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const RecipeArguments recipe = trial_recipe(place, trial);
  RankStart start;
  start.program = fs::read_symlink("/proc/self/exe").string();
  start.argv = {"accel-run", "plan", "--names"};
  if (!recipe.config.empty()) start.argv.insert(start.argv.end(), {"--config", recipe.config});
  start.argv.push_back(recipe.path);
  start.argv.insert(start.argv.end(), recipe.overrides.begin(), recipe.overrides.end());
  start.environment = own_environment();
  start.standard_error = file.get();
  start.own_output = false;
  RankProcess process(start);
  std::optional<RankEnd> end;
  constexpr int kMilliseconds = 10;
  while (!(end = process.reap())) ::poll(nullptr, 0, kMilliseconds);
  if (end->by_signal || end->number != 0) return {};
  std::vector<std::string> names;
  std::ifstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find('/') != line.npos && line.find(' ') == line.npos) names.push_back(line);
  }
  return names;
}

/// Of each kind of trial the first: those whose other values may mean other metrics.
std::vector<Trial> kinds_of(const std::vector<Trial>& trials) {
  std::vector<Trial> kinds;
  std::set<std::string> seen;
  for (const Trial& trial : trials) {
    std::string kind;
    for (const TrialValue& value : trial.values) {
      const bool counts = value.key == "model.type" || value.key.starts_with("task") ||
                          value.key.starts_with("data.eval") || value.key.starts_with("eval.metr");
      if (counts) kind += override_text(value) + '\n';
    }
    if (seen.insert(kind).second) kinds.push_back(trial);
  }
  return kinds;
}

}  // namespace

void check_metrics(const SweepPlace& place, const std::vector<Trial>& trials) {
  std::vector<std::string> asked = metrics_of(place.sweep);
  std::erase_if(asked, [](const std::string& name) { return kAlwaysLogged.contains(name); });
  if (asked.empty()) return;
  Diagnostics problems;
  for (const Trial& trial : kinds_of(trials)) {
    const std::vector<std::string> names = names_of_trial(place, trial);
    for (const std::string& name : asked) {
      if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
      const auto where = place.sweep.metric_places.find(name);
      std::string hint = did_you_mean(name, names);
      if (hint.empty()) hint = "'accel-run plan --names RECIPE' lists them";
      problems.error(where == place.sweep.metric_places.end() ? Span() : where->second,
                     "'" + trial.name + "' logs nothing under the name '" + name + "'", hint);
    }
    problems.check();
  }
}

}  // namespace accel
