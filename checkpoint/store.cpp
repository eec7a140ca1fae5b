#include "checkpoint/store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
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
constexpr std::string_view kProbe = "probe_";  // a file that ranks look for

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

std::string space_text(Files& files, const std::string& folder, int64_t needed) {
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
    } else if (old || step_in(entry.name, kNew) || step_in(entry.name, kTrash) ||
               step_in(entry.name, kProbe)) {
      files_.remove_tree(path);
    }
  }
} catch (const FileError& error) {
  throw IoError(text("cannot clean up '{}': {}", staging_, error.what()));
}

std::string CheckpointStore::staged(int64_t step) const {
  return staging_ + "/" + std::string(kNew) + std::to_string(step);
}

void CheckpointStore::throw_failed(int64_t step, int64_t bytes, const std::string& reason) const {
  throw IoError(text("cannot save checkpoint '{}': {}; {}", published(step), reason,
                     space_text(files_, staging_, bytes)),
                "older checkpoints are unchanged");
}

template <class Part>
void CheckpointStore::attempt(int64_t step, int64_t bytes, Part part) {
  try {
    part();
  } catch (const FileError& error) {
    remove_quietly(files_, staged(step));
    throw_failed(step, bytes, error.what());
  } catch (...) {
    remove_quietly(files_, staged(step));
    throw;
  }
}

void CheckpointStore::prepare(int64_t step, int64_t bytes) {
  if (folder_exists_) require_run_folder(step);
  make_folder(staging_);
  make_folder(checkpoints_);
  files_.sync_dir(run_dir_);
  recover();
  if (files_.free_space(staging_) < bytes) throw_failed(step, bytes, "the disk is too full");
  make_folder(staged(step));
}

std::string CheckpointStore::save(const TrainState& state) {
  const int64_t step = state.progress.step, bytes = checkpoint_bytes(state);
  attempt(step, bytes, [&] {
    prepare(step, bytes);
    write_checkpoint(files_, staged(step), state);
    publish(step);
  });
  return published(step);
}

void CheckpointStore::stage(const TrainState& state, int64_t bytes) {
  const int64_t step = state.progress.step;
  attempt(step, bytes, [&] {
    prepare(step, bytes);
    for (const std::string& folder : shard_folders(state)) {
      files_.make_dirs(staged(step) + "/" + folder, staged(step));
    }
    files_.sync_dir(staged(step));
  });
}

ShardRecord CheckpointStore::write_shards(const TrainState& state) const try {
  return accel::write_shards(files_, staged(state.progress.step), state);
} catch (const FileError& error) {
  throw IoError(error.what());
}

std::string CheckpointStore::publish_shards(const TrainState& state,
                                            std::vector<ShardRecord> ranks) {
  const int64_t step = state.progress.step;
  int64_t bytes = 0;
  for (const ShardRecord& rank : ranks) {
    for (const auto& [name, file] : rank.files) bytes += file.bytes;
  }
  attempt(step, bytes, [&] {
    finish_shards(files_, staged(step), state, std::move(ranks));
    publish(step);
  });
  return published(step);
}

void CheckpointStore::discard_staged(int64_t step) {
  remove_quietly(files_, staged(step));
}

std::string CheckpointStore::add_probe() try {
  // Another machine may have a folder of the same path, and a file of an earlier run in it.
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  std::string name = std::string(kProbe) + std::to_string(now);
  make_folder(staging_);
  files_.create(staging_ + "/" + name)->close();
  return name;
} catch (const FileError& error) {
  throw IoError(error.what());
}

bool CheckpointStore::has_probe(const std::string& name) const {
  return has(files_, staging_, name);
}

void CheckpointStore::remove_probe(const std::string& name) {
  remove_quietly(files_, staging_ + "/" + name);
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

void CheckpointStore::publish(int64_t step) {
  const std::string target = published(step);
  const std::string old = staging_ + "/" + std::string(kOld) + std::to_string(step);
  const bool replaces = has(files_, checkpoints_, std::string(kPublished) + std::to_string(step));
  if (replaces) files_.rename(target, old);
  try {
    files_.rename(staged(step), target);
  } catch (const FileError&) {
    if (replaces) rename_quietly(files_, old, target);
    throw;
  }
  files_.sync_dir(checkpoints_);
  files_.sync_dir(staging_);
  remove_quietly(files_, old);
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
  if (has_manifest(files_, path)) return read_checkpoint(files_, path, options);
  return read_accelerate_checkpoint(files_, path, options);
}

std::optional<LoadedCheckpoint> CheckpointStore::load_newest(const Report& report,
                                                             const LoadOptions& options) const {
  const std::vector<CheckpointEntry> entries = list();
  for (const CheckpointEntry& entry : entries) {
    if (!report || !entry.renamed) continue;
    report(text("'{}' is at step {} by its manifest: its name is ignored", entry.path, entry.step));
  }
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      return LoadedCheckpoint{entry->path, read_checkpoint(files_, entry->path, options)};
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
