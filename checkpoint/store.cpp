#include "checkpoint/store.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>

#include "checkpoint/folder_writer.h"
#include "checkpoint/writer.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPublished = "checkpoint_";
constexpr std::string_view kNew = "new_";      // an unpublished save
constexpr std::string_view kOld = "old_";      // a checkpoint during its replacement
constexpr std::string_view kTrash = "trash_";  // a checkpoint during its deletion

/// The step of a name PREFIX<step>.
std::optional<int64_t> step_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), step);
  if (error != std::errc() || end != name.end() || std::to_string(step) != name || step < 0) {
    return std::nullopt;
  }
  return step;
}

bool has(Files& files, const std::string& folder, std::string_view name) {
  for (const DirEntry& entry : files.list(folder)) {
    if (entry.name == name) return true;
  }
  return false;
}

std::string space_text(Files& files, const std::string& folder, const TrainState& state) {
  const int64_t needed = checkpoint_bytes(state);
  try {
    return text("it needs {} bytes, {} are free", needed, files.free_space(folder));
  } catch (const FileError&) {  // the first error is reported
    return text("it needs {} bytes", needed);
  }
}

/// Undoes a rename after a failure; recover() retries it.
void rename_quietly(Files& files, const std::string& from, const std::string& to) {
  try {
    files.rename(from, to);
  } catch (const FileError&) {  // the first error is reported
  }
}

}  // namespace

CheckpointStore::CheckpointStore(Files& files, std::string run_dir)
    : files_(files),
      run_dir_(std::move(run_dir)),
      staging_(run_dir_ + "/staging"),
      checkpoints_(run_dir_ + "/checkpoints") {}

std::string CheckpointStore::published(int64_t step) const {
  return checkpoints_ + "/" + std::string(kPublished) + std::to_string(step);
}

void CheckpointStore::recover() try {
  const std::vector<DirEntry> left = files_.list(staging_);
  if (left.empty()) return;
  // The renames of a killed process may not be synced: a power loss would undo them after the files
  // of a replaced checkpoint are deleted.
  files_.make_dirs(checkpoints_);
  files_.sync_dir(checkpoints_);
  for (const DirEntry& entry : left) {
    const std::string path = staging_ + "/" + entry.name;
    const std::optional<int64_t> old = step_in(entry.name, kOld);
    if (old && !has(files_, checkpoints_, std::string(kPublished) + std::to_string(*old))) {
      files_.rename(path, published(*old));
      files_.sync_dir(checkpoints_);
    } else if (old || step_in(entry.name, kNew) || step_in(entry.name, kTrash)) {
      files_.remove_tree(path);
    }
  }
} catch (const FileError& error) {
  throw IoError(text("cannot clean up '{}': {}", staging_, error.what()));
}

std::string CheckpointStore::save(const TrainState& state) {
  const int64_t step = state.progress.step;
  const std::string staged = staging_ + "/" + std::string(kNew) + std::to_string(step);
  const auto throw_failed = [&](const std::string& reason) {
    throw IoError(text("cannot save checkpoint '{}': {}; {}", published(step), reason,
                       space_text(files_, staging_, state)),
                  "older checkpoints are unchanged");
  };
  try {
    if (folder_exists_) require_run_folder(step);
    make_folder(staging_);
    make_folder(checkpoints_);
    files_.sync_dir(run_dir_);
    recover();
    if (files_.free_space(staging_) < checkpoint_bytes(state)) {
      throw_failed("the disk is too full");
    }
    make_folder(staged);
    write_checkpoint(files_, staged, state);
    publish(staged, step);
  } catch (const FileError& error) {
    remove_quietly(files_, staged);
    throw_failed(error.what());
  } catch (...) {
    remove_quietly(files_, staged);
    throw;
  }
  remove_quietly(files_, staging_ + "/" + std::string(kOld) + std::to_string(step));
  return published(step);
}

void CheckpointStore::make_folder(const std::string& path) {
  files_.make_dirs(path, folder_exists_ ? run_dir_ : "");
}

void CheckpointStore::require_run_folder(int64_t step) const {
  fs::path path = run_dir_;
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  if (has(files_, folder_of(path.string()), path.filename().string())) return;
  throw IoError(text("cannot save checkpoint '{}': the run folder is missing", published(step)),
                "it was removed or moved after the run started");
}

CheckpointStore::Space CheckpointStore::space(const TrainState& state) const try {
  return {checkpoint_bytes(state), files_.free_space(run_dir_)};
} catch (const FileError& error) {
  throw IoError(error.what());
}

void CheckpointStore::publish(const std::string& staged, int64_t step) {
  const std::string target = published(step);
  const std::string old = staging_ + "/" + std::string(kOld) + std::to_string(step);
  const bool replaces = has(files_, checkpoints_, std::string(kPublished) + std::to_string(step));
  if (replaces) files_.rename(target, old);
  try {
    files_.rename(staged, target);
  } catch (const FileError&) {
    if (replaces) rename_quietly(files_, old, target);
    throw;
  }
  files_.sync_dir(checkpoints_);
  files_.sync_dir(staging_);
}

std::vector<CheckpointEntry> CheckpointStore::list() const try {
  std::vector<CheckpointEntry> out;
  for (const DirEntry& entry : files_.list(checkpoints_)) {
    const std::optional<int64_t> step = step_in(entry.name, kPublished);
    if (!step || entry.kind != DirEntry::Kind::kFolder) continue;
    const std::string path = published(*step);
    const int64_t true_step = step_in_manifest(files_, path).value_or(*step);
    out.push_back({true_step, path, true_step != *step});
  }
  std::sort(out.begin(), out.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::tie(a.step, a.path) < std::tie(b.step, b.path);
  });
  return out;
} catch (const FileError& error) {
  throw IoError(error.what());
}

void CheckpointStore::verify(const std::string& path) const {
  verify_checkpoint(files_, path);
}

TrainState CheckpointStore::inspect(const std::string& path) const {
  return inspect_checkpoint(files_, path).state;
}

TrainState CheckpointStore::load(const std::string& path, const LoadOptions& options) const {
  if (has_manifest(files_, path)) return read_checkpoint(files_, path);
  return read_accelerate_checkpoint(files_, path, options);
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(const Report& report) const {
  const std::vector<CheckpointEntry> entries = list();
  for (const CheckpointEntry& entry : entries) {
    if (!report || !entry.renamed) continue;
    report(text("'{}' is at step {} by its manifest: its name is ignored", entry.path, entry.step));
  }
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      return LoadedCheckpoint{entry->path, read_checkpoint(files_, entry->path)};
    } catch (const CheckpointError& error) {
      if (report) report(text("skipped step {}: {}", entry->step, error.what()));
    }
  }
  return std::nullopt;
}

void CheckpointStore::discard(const std::string& path, int64_t step) {
  const std::string trash = staging_ + "/" + std::string(kTrash) + std::to_string(step);
  make_folder(staging_);
  files_.remove_tree(trash);
  files_.rename(path, trash);
  // Before the first deletion: a crash must not leave an incomplete checkpoint under its old name.
  files_.sync_dir(checkpoints_);
  files_.remove_tree(trash);
}

void CheckpointStore::retain(const KeepPolicy& policy, int64_t newest) try {
  std::vector<KeepCandidate> candidates;
  std::multimap<int64_t, std::string> paths;
  for (const CheckpointEntry& entry : list()) {
    if (entry.step > newest) break;
    try {
      const TrainState state = inspect(entry.path);
      const auto metric = state.metrics.find(policy.metric);
      candidates.push_back({entry.step, {}});
      paths.emplace(entry.step, entry.path);
      if (metric != state.metrics.end()) candidates.back().metric = metric->second;
    } catch (const CheckpointError&) {
      continue;  // damaged ones are kept for inspection
    }
  }
  for (const int64_t step : steps_to_delete(candidates, policy)) {
    const auto path = paths.find(step);
    discard(path->second, step);
    paths.erase(path);
  }
} catch (const FileError& error) {
  throw IoError(text("cannot delete an old checkpoint: {}", error.what()));
}

}  // namespace accel
