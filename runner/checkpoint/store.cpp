#include "runner/checkpoint/store.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "runner/checkpoint/writer.h"

namespace accel {
namespace {

constexpr std::string_view kPublished = "checkpoint_";
constexpr std::string_view kNew = "new_";  // a save that is not published yet
constexpr std::string_view kOld = "old_";  // a checkpoint while another of its step is published
constexpr std::string_view kTrash = "trash_";  // a checkpoint on its way out

/// The step in a name made of `prefix` and a step.
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
  std::string out = "it needs " + std::to_string(checkpoint_bytes(state)) + " bytes";
  try {
    out += ", " + std::to_string(files.free_space(folder)) + " are free";
  } catch (const FileError&) {
    // The disk cannot even say: the error that brought us here tells more.
  }
  return out;
}

/// Undoes a rename after a failure, which matters more than one to undo it.
void put_back(Files& files, const std::string& from, const std::string& to) {
  try {
    files.rename(from, to);
  } catch (const FileError&) {
    // recover() will try again.
  }
}

/// Removes what must not stay behind a failure, which matters more than one to remove it.
void discard(Files& files, const std::string& folder) {
  try {
    files.remove_tree(folder);
  } catch (const FileError&) {
    // recover() will try again.
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
  // A killed process may not have synced its renames, and a power loss would undo them: files of a
  // checkpoint that goes back to its old name must all be there still.
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
  throw IoError("cannot clean up '" + staging_ + "': " + error.what());
}

std::string CheckpointStore::save(const TrainState& state) {
  const int64_t step = state.progress.step;
  const std::string staged = staging_ + "/" + std::string(kNew) + std::to_string(step);
  const std::string failed = "cannot save checkpoint '" + published(step) + "': ";
  const auto hint = "older checkpoints are as they were";
  try {
    files_.make_dirs(staging_);
    files_.make_dirs(checkpoints_);
    files_.sync_dir(run_dir_);
    recover();
    if (files_.free_space(staging_) < checkpoint_bytes(state)) {
      throw IoError(failed + "the disk is too full; " + space_text(files_, staging_, state), hint);
    }
    files_.make_dirs(staged);
    write_checkpoint(files_, staged, state);
    publish(staged, step);
  } catch (const FileError& error) {
    discard(files_, staged);
    throw IoError(failed + error.what() + "; " + space_text(files_, staging_, state), hint);
  } catch (...) {
    discard(files_, staged);
    throw;
  }
  discard(files_, staging_ + "/" + std::string(kOld) + std::to_string(step));
  return published(step);
}

CheckpointStore::Space CheckpointStore::space(const TrainState& state) const try {
  return {checkpoint_bytes(state), files_.free_space(run_dir_)};
} catch (const FileError& error) {
  throw IoError(error.what());
}

void CheckpointStore::publish(const std::string& staged, int64_t step) {
  const std::string place = published(step);
  const std::string old = staging_ + "/" + std::string(kOld) + std::to_string(step);
  const bool replaces = has(files_, checkpoints_, std::string(kPublished) + std::to_string(step));
  if (replaces) files_.rename(place, old);
  try {
    files_.rename(staged, place);
  } catch (const FileError&) {
    if (replaces) put_back(files_, old, place);
    throw;
  }
  files_.sync_dir(checkpoints_);
  files_.sync_dir(staging_);
}

std::vector<CheckpointEntry> CheckpointStore::list() const try {
  std::vector<CheckpointEntry> out;
  for (const DirEntry& entry : files_.list(checkpoints_)) {
    const std::optional<int64_t> step = step_in(entry.name, kPublished);
    if (step && entry.kind == DirEntry::Kind::kFolder) out.push_back({*step, published(*step)});
  }
  std::sort(out.begin(), out.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
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
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      return LoadedCheckpoint{entry->path, read_checkpoint(files_, entry->path)};
    } catch (const CheckpointError& error) {
      if (report) report("skipped step " + std::to_string(entry->step) + ": " + error.what());
    }
  }
  return std::nullopt;
}

void CheckpointStore::retain(const KeepPolicy& policy, int64_t newest) try {
  std::vector<KeepCandidate> candidates;
  for (const CheckpointEntry& entry : list()) {
    if (entry.step > newest) break;
    try {
      const TrainState state = inspect(entry.path);
      const auto metric = state.metrics.find(policy.by);
      candidates.push_back({entry.step, {}});
      if (metric != state.metrics.end()) candidates.back().metric = metric->second;
    } catch (const CheckpointError&) {
      continue;  // a person may want to look at it
    }
  }
  for (const int64_t step : steps_to_delete(candidates, policy)) {
    const std::string trash = staging_ + "/" + std::string(kTrash) + std::to_string(step);
    files_.make_dirs(staging_);
    files_.remove_tree(trash);
    files_.rename(published(step), trash);
    // Before the first file goes: a crash must not leave half a checkpoint under the old name.
    files_.sync_dir(checkpoints_);
    files_.remove_tree(trash);
  }
} catch (const FileError& error) {
  throw IoError("cannot delete an old checkpoint: " + std::string(error.what()));
}

}  // namespace accel
