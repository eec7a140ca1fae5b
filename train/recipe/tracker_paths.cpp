#include "train/recipe/tracker_paths.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// What no tracker may write in the run's folder: files, and folders of which the run reads or
/// deletes all content.
constexpr const char* kOwnNames[] = {"recipe.yaml",   "metrics.jsonl", "run.lock", "report.html",
                                     "control.jsonl", "checkpoints",   "staging",  "control"};
/// Folders in which a tracker may have a folder, but no file.
constexpr const char* kSharedNames[] = {"logs", "samples", "profile"};

fs::path whole_path(const std::string& path) {
  std::error_code unknown;
  const fs::path absolute = fs::absolute(path).lexically_normal();
  fs::path whole = fs::weakly_canonical(absolute, unknown);
  return unknown ? absolute : whole;
}

/// Whether `path` is one of `names` in `run`, or below it.
bool is_within(const fs::path& path, const fs::path& run, std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    const fs::path outer = run / name;
    return std::mismatch(outer.begin(), outer.end(), path.begin(), path.end()).first == outer.end();
  });
}

const Node* path_option(const Node& tracker, const char* name) {
  const Node::Entry* entry = tracker.find(name);
  const Scalar* scalar = entry ? entry->node.scalar() : nullptr;
  return scalar && !scalar->text.empty() ? &entry->node : nullptr;
}

}  // namespace

void check_tracker_paths(const RecipeOptions& recipe, const std::string& run_dir,
                         Diagnostics& problems) {
  const fs::path run = whole_path(run_dir);
  std::map<fs::path, std::string> files;  // of trackers, with their types
  const auto add_file = [&](const Node& tracker, const std::string& type, const fs::path& file) {
    const auto [other, added] = files.emplace(file, type);
    if (added) return;
    problems.error(tracker.where,
                   text("the trackers '{}' and '{}' write to the same file '{}'", other->second,
                        type, fs::proximate(file).string()),
                   "give one of them another path");
  };
  for (const Ref<Tracker>& tracker : recipe.trackers) {
    const Node* file = path_option(tracker.resolved, "path");
    const Node* option = file ? file : path_option(tracker.resolved, "dir");
    if (tracker.type == "csv" && !file)
      add_file(tracker.resolved, tracker.type, run / "metrics.csv");
    if (!option) continue;
    const fs::path path = whole_path(option->scalar()->text);
    if (is_within(path, run, kOwnNames) || (file && is_within(path, run, kSharedNames))) {
      problems.error(option->where,
                     text("the tracker '{}' cannot write to '{}': the run writes there",
                          tracker.type, fs::proximate(path).string()),
                     text("set another '{}'", file ? "path" : "dir"));
    } else if (file) {
      add_file(*option, tracker.type, path);
    }
  }
}

}  // namespace accel
