#include "runner/loop/resumable.h"

#include <algorithm>

#include "core/log.h"
#include "core/node.h"
#include "runner/job/job.h"
#include "runner/loop/run_state.h"

namespace accel {
namespace {

/// What another seed has to do with the data: ", which is drawn by 'seed', ...", or "".
std::string by_seed(const Job& job, const std::vector<RecipeChange>& changes) {
  const auto seed = std::find_if(changes.begin(), changes.end(),
                                 [](const RecipeChange& change) { return change.key == "seed"; });
  const auto& parts = job.recipe.data.train.parts;
  const bool drawn = std::any_of(parts.begin(), parts.end(), [](const DatasetPart& part) {
    return part.component.type.starts_with("synthetic/");
  });
  if (seed == changes.end() || !drawn) return {};
  return ": synthetic data is drawn by 'seed', which was " + seed->then + " and is " + seed->now;
}

void check_same_data(const Job& job, const TrainState& state,
                     const std::vector<RecipeChange>& changes,
                     const std::vector<std::string>& allowed) {
  const auto saved = state.facts.find("data");
  if (saved == state.facts.end() || saved->second == job.data_fingerprint) return;
  for (const std::string& key : allowed) {
    if (key == "data" || key.starts_with("data.")) return;
  }
  const std::string seed = by_seed(job, changes);
  throw CheckpointError("the training data is not what it was when the checkpoint was made" + seed,
                        std::string(seed.empty() ? "bring the old data back" : "keep the seed") +
                            ", or add --allow data");
}

/// Where a batch grows with the ranks, another number of them counts other steps in an epoch.
void check_same_batches(const Job& job, const TrainState& state) {
  const auto saved = state.facts.find("ranks");
  const std::string now = std::to_string(job.group->world());
  if (job.recipe.data.loader.split_batches || saved == state.facts.end() || saved->second == now) {
    return;
  }
  throw CheckpointError("'data.loader.split_batches' is false, so that a batch of " + now +
                            " ranks is none of " + saved->second + ", which made the checkpoint",
                        "go on with 'accelerator.num_processes' " + saved->second);
}

/// The checkpoint's weights replace them, but a run that started elsewhere is not this one.
void check_same_start(const Job& job, const TrainState& state,
                      const std::vector<std::string>& allowed) {
  const auto saved = state.facts.find("weights");
  const bool from_file = job.recipe.model.resolved.find("file") != nullptr;
  const std::string key = from_file ? "model.file" : "model.weights";
  if (saved == state.facts.end() || job.weights_fingerprint.empty() ||
      saved->second == job.weights_fingerprint ||
      std::find(allowed.begin(), allowed.end(), key) != allowed.end()) {
    return;
  }
  throw CheckpointError(
      std::string(from_file ? "the file of the model is not what it was"
                            : "the weights that the model starts from are not what they were") +
          " when the checkpoint was made",
      "bring the old " + std::string(from_file ? "file" : "folder") + " back, or add --allow " +
          key);
}

/// What a plugin computes is known by its file alone.
void check_same_plugins(const Job& job, const TrainState& state,
                        const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), "plugins") != allowed.end()) return;
  const std::map<std::string, std::string> now = plugin_facts(job.recipe.plugin_identities);
  for (const auto& [name, then] : state.facts) {
    if (!name.starts_with(kPluginFact)) continue;
    const std::string plugin = "plugin '" + name.substr(kPluginFact.size()) + "'";
    const auto found = now.find(name);
    if (found == now.end()) {
      throw CheckpointError("the checkpoint was made with " + plugin + " (" + then +
                                "), which the recipe does not load",
                            "name it in 'plugins', or add --allow plugins");
    }
    if (found->second == then) continue;
    throw CheckpointError(plugin + " is not what it was when the checkpoint was made: it was " +
                              then + ", and is " + found->second,
                          "bring the old file back, or add --allow plugins");
  }
}

void warn_of_other_environment(const Job& job, const TrainState& state) {
  for (const auto& [name, value] : run_facts(job)) {
    const auto saved = state.facts.find(name);
    if (saved == state.facts.end() || saved->second == value) continue;
    warn("a bit-exact resume is not guaranteed: '" + name + "' was " + saved->second + " and is " +
         value);
  }
}

}  // namespace

std::vector<RecipeChange> check_resumable(const Job& job, const TrainState& state,
                                          const std::vector<std::string>& allowed) {
  const Node then = parse_recipe("checkpoint.yaml", state.recipe);
  check_same_plugins(job, state, allowed);
  auto changes = diff_recipes(then, job.resolved, RecipeOptions::schema().info());
  check_changes(changes, allowed);
  check_same_data(job, state, changes, allowed);
  check_same_batches(job, state);
  check_same_start(job, state, allowed);
  for (const RecipeChange& change : changes) {
    say("changed: " + change.key + " was " + change.then + ", is " + change.now);
  }
  warn_of_other_environment(job, state);
  return changes;
}

}  // namespace accel
