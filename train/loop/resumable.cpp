#include "train/loop/resumable.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/node.h"
#include "train/job/job.h"
#include "train/loop/report.h"
#include "train/loop/run_state.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

/// An option outside `data` on which the training data depend.
struct DataReason {
  std::string text;  ///< what has changed; "" for nothing
  std::string hint = "restore the old data";
};

DataReason data_reason(const Job& job, const std::vector<RecipeChange>& changes) {
  const auto change_of = [&](const char* key) {
    return std::find_if(changes.begin(), changes.end(),
                        [&](const RecipeChange& change) { return change.key == key; });
  };
  const auto& datasets = job.recipe.data.train.parts;
  const auto seed = change_of("seed"), until = change_of("train.until");
  const bool drawn = std::any_of(datasets.begin(), datasets.end(), [](const DatasetPart& part) {
    return part.component.type.starts_with("synthetic/");
  });
  if (seed != changes.end() && drawn) {
    return {.text = text(": synthetic data depends on 'seed', which was {} and is {}", seed->then,
                         seed->now),
            .hint = "keep the seed"};
  }
  const bool in_percent = std::any_of(
      datasets.begin(), datasets.end(),
      [](const DatasetPart& part) { return part.extra.weight && part.extra.weight->in_percent(); });
  if (until != changes.end() && in_percent) {
    return {.text = text(": a 'weight' has points in percent of 'train.until', which was {} and is "
                         "{}",
                         until->then, until->now),
            .hint = "keep 'train.until', or write the points in steps"};
  }
  return {};
}

void check_same_data(const Job& job, const TrainState& state,
                     const std::vector<RecipeChange>& changes,
                     const std::vector<std::string>& allowed) {
  const auto saved = state.provenance.find("data");
  if (saved == state.provenance.end() || saved->second == job.data_fingerprint) return;
  for (const std::string& key : allowed) {
    if (key == "data" || key.starts_with("data.")) return;
  }
  const DataReason reason = data_reason(job, changes);
  throw CheckpointError("the training data has changed since the checkpoint" + reason.text,
                        text("{}, or add --allow data", reason.hint));
}

/// When the batch grows with the number of ranks, another number changes the steps per epoch.
void check_same_batches(const Job& job, const TrainState& state) {
  const auto saved = state.provenance.find("ranks");
  const std::string now = std::to_string(job.batches.world);
  if (job.recipe.data.loader.split_batches || saved == state.provenance.end() ||
      saved->second == now) {
    return;
  }
  throw CheckpointError(text("'data.loader.split_batches' is false: {} ranks make another batch "
                             "than the {} of the checkpoint",
                             now, saved->second),
                        text("resume with 'accelerator.num_processes' {}", saved->second));
}

/// The checkpoint's weights replace the initial ones, but other initial weights mean another run.
void check_same_start(const Job& job, const TrainState& state,
                      const std::vector<std::string>& allowed) {
  const auto saved = state.provenance.find("weights");
  const bool from_file = job.recipe.model.resolved.find("file") != nullptr;
  const std::string key = from_file ? "model.file" : "model.weights";
  if (saved == state.provenance.end() || job.weights_fingerprint.empty() ||
      saved->second == job.weights_fingerprint ||
      std::find(allowed.begin(), allowed.end(), key) != allowed.end()) {
    return;
  }
  throw CheckpointError(
      text("the model's {} changed since the checkpoint",
           from_file ? "file has" : "initial weights have"),
      text("restore the old {}, or add --allow {}", from_file ? "file" : "folder", key));
}

/// A plugin is identified by the digest of its file.
void check_same_plugins(const Job& job, const TrainState& state,
                        const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), "plugins") != allowed.end()) return;
  const std::map<std::string, std::string> now = plugin_provenance(job.recipe.plugin_identities);
  for (const auto& [name, then] : state.provenance) {
    if (!name.starts_with(kPluginKey)) continue;
    const std::string plugin = name.substr(kPluginKey.size());
    const auto found = now.find(name);
    if (found == now.end()) {
      throw CheckpointError(
          text("the checkpoint was made with the plugin '{}' ({}), which the recipe does not load",
               plugin, then),
          "add it to 'plugins', or add --allow plugins");
    }
    if (found->second == then) continue;
    throw CheckpointError(
        text("the plugin '{}' has changed since the checkpoint: it was {}, and is {}", plugin, then,
             found->second),
        "restore the old file, or add --allow plugins");
  }
}

void warn_of_other_environment(const Job& job, const TrainState& state) {
  std::map<std::string, std::string> saved = state.provenance, now = run_provenance(job);
  for (auto* all : {&saved, &now}) {
    for (const char* key : {kTensorRanksKey, kExpertRanksKey, kContextRanksKey}) {
      all->try_emplace(key, "1");
    }
  }
  for (const auto& [name, value] : now) {
    const auto then = saved.find(name);
    if (then == saved.end() || then->second == value) continue;
    warn(text("a bit-exact resume is not guaranteed: '{}' was {} and is {}", name, then->second,
              value));
  }
}

/// The saved recipe with the defaults of options that are newer than the checkpoint.
Node with_defaults(const Node& then, const Job& job) try {
  Diagnostics problems;
  Reading reading{problems, job.registry};
  return resolve_recipe(read_recipe(then, job.recipe.name, reading), then);
} catch (const RecipeError&) {
  return then;
}

/// Other held-out samples were trained on, unless the user consents.
void check_same_split(const std::vector<RecipeChange>& changes,
                      const std::vector<std::string>& allowed) {
  constexpr auto kSplit = "data.split";
  for (const std::string& key : allowed) {
    if (key == "data" || key.starts_with(kSplit)) return;
  }
  std::string lines;
  for (const RecipeChange& change : changes) {
    if (!change.key.starts_with(std::string(kSplit) + ".")) continue;
    lines += text("\n  {}: was {}, is {}", change.key, change.then, change.now);
  }
  if (lines.empty()) return;
  throw CheckpointError(text("the held-out samples have changed, and some of the new ones were "
                             "trained on:{}",
                             lines),
                        "restore the old values, or add --allow data.split");
}

/// `limit` was what `head` is now in version 0.1.0.
void check_same_limit(const std::vector<RecipeChange>& changes,
                      const std::vector<std::string>& allowed) {
  for (const RecipeChange& limit : changes) {
    constexpr std::string_view kLimit = ".limit";
    if (!limit.key.ends_with(kLimit)) continue;
    const std::string head = limit.key.substr(0, limit.key.size() - kLimit.size()) + ".head";
    const auto before = std::find_if(changes.begin(), changes.end(), [&](const RecipeChange& c) {
      return c.key == head && c.then == limit.now && limit.then == c.now;
    });
    if (before == changes.end() ||
        std::find(allowed.begin(), allowed.end(), limit.key) != allowed.end()) {
      continue;
    }
    throw CheckpointError(
        text("'{}' is {}: in the checkpoint it meant the first {} samples, and now it draws them "
             "from all",
             limit.key, limit.now, limit.now),
        text("write 'head: {}' instead", limit.now));
  }
}

/// Steps of the run before 'train.until' changed; 0 if they are unknown or the same.
int64_t former_steps(const Job& job, const std::vector<RecipeChange>& changes) {
  const auto until = std::find_if(changes.begin(), changes.end(), [](const RecipeChange& change) {
    return change.key == "train.until";
  });
  if (until == changes.end()) return 0;
  Diagnostics ignored;  // the old recipe has been read before
  Reading reading{ignored, job.registry};
  const Node tree = parse_recipe("checkpoint.yaml", "until: " + until->then);
  const auto durations = Codec<Durations>::read(tree.find("until")->node, "until", reading);
  int64_t steps = 0;
  for (const Duration& each : durations.value_or(Durations())) {
    const bool timed = each.unit == Duration::Unit::kSeconds;
    const bool tokens = each.unit == Duration::Unit::kTokens && job.length.tokens_per_step == 0;
    if (timed || tokens) continue;
    const int64_t count = job.length.steps(each);
    steps = steps == 0 ? count : std::min(steps, count);
  }
  return steps;
}

}  // namespace

std::string lr_change_text(const Job& job, const TrainState& state, int64_t updates,
                           const std::vector<RecipeChange>& changes) {
  if (state.lrs.empty() || changes.empty()) return "";
  const double then = state.lrs.front();
  const double now = job.schedule->lr(job.optimizer->base_lrs().front(), updates);
  const std::string from = rounded(then), to = rounded(now);
  if (from == to) return "";
  const bool other_curve =
      std::any_of(changes.begin(), changes.end(), [](const RecipeChange& change) {
        return change.key.starts_with("optimizer.") || change.key.starts_with("scheduler.");
      });
  const int64_t before = former_steps(job, changes), after = job.length.total_steps;
  if (other_curve || before == 0 || after == 0 || before == after) {
    return text("with the changed recipe the lr jumps from {} to {}", from, to);
  }
  return text("{} from {} to {} steps: the lr jumps from {} to {}",
              before < after ? "stretched" : "shortened", before, after, from, to);
}

std::vector<RecipeChange> check_resumable(const Job& job, const TrainState& state,
                                          const std::vector<std::string>& allowed,
                                          const RunAgain& again) {
  const Node then =
      with_defaults(parse_saved_recipe("checkpoint.yaml", state.recipe, job.registry), job);
  check_same_plugins(job, state, allowed);
  auto changes = diff_recipes(then, job.resolved, RecipeOptions::schema().info(), job.registry);
  check_same_split(changes, allowed);
  check_same_limit(changes, allowed);
  check_changes(changes, allowed, again);
  check_same_data(job, state, changes, allowed);
  check_same_batches(job, state);
  check_same_start(job, state, allowed);
  const auto shown = [](const std::string& value) { return value.empty() ? "(none)" : value; };
  for (const RecipeChange& change : changes) {
    say("changed: " + change.key + " was " + shown(change.then) + ", is " + shown(change.now));
  }
  warn_of_other_environment(job, state);
  return changes;
}

}  // namespace accel
