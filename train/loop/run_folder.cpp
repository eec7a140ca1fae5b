#include "train/loop/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/run_lock.h"
#include "core/base/error.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// Files that a run opens under a fixed name. report.html is only replaced.
const std::string kRunFiles[] = {"recipe.yaml", "metrics.jsonl", "control.jsonl"};

[[noreturn]] void refuse(const std::string& dir, const std::string& why) {
  throw IoError(text("the run folder '{}' cannot be used: {}", dir, why),
                "use a writable folder with free disk space");
}

/// Refuses folders between which no checkpoint can be renamed, such as a link to another disk or to
/// none.
void check_checkpoint_folders(const std::string& dir) {
  const std::string checkpoints = dir + "/checkpoints", staging = dir + "/staging";
  for (const std::string& path : {checkpoints, staging}) {
    std::error_code none;
    const bool is_there = fs::exists(fs::symlink_status(path, none));
    if (is_there && !fs::is_directory(path, none)) {
      refuse(dir, text("'{}' is not a folder", path));
    }
  }
  const auto device_of = [&dir](const std::string& path) {
    struct stat found {};
    const bool is_there = ::stat(path.c_str(), &found) == 0 || ::stat(dir.c_str(), &found) == 0;
    return is_there ? found.st_dev : dev_t{};
  };
  if (device_of(checkpoints) == device_of(staging)) return;
  throw IoError(
      text("'{}' is on another file system than '{}'", checkpoints, staging),
      "a save is renamed from one to the other: move the run folder as a whole, or link to it");
}

bool exists(Files& files, const fs::path& path) {
  for (const DirEntry& entry : files.list(path.parent_path().string())) {
    if (entry.name == path.filename()) return true;
  }
  return false;
}

/// `first`, or `numbered` with the first number from 2 that no file has.
std::string free_name(const std::string& first, const std::string& numbered) {
  const auto taken = [](const std::string& path) {
    std::error_code none;
    return fs::exists(fs::symlink_status(path, none));
  };
  std::string name = first;
  for (int64_t number = 2; taken(name); ++number) name = numbered + std::to_string(number);
  return name;
}

}  // namespace

void check_run_folder(const std::string& dir) {
  fs::path existing = fs::absolute(dir).lexically_normal();
  std::error_code unknown;
  while (!fs::exists(existing, unknown) && existing.has_relative_path())
    existing = existing.parent_path();
  if (!fs::is_directory(existing, unknown))
    refuse(dir, text("'{}' is not a folder", existing.string()));
  if (::access(existing.c_str(), W_OK | X_OK) != 0) {
    refuse(dir, text("'{}' is not writable: {}", existing.string(), std::strerror(errno)));
  }
  check_run_files(dir);
  check_checkpoint_folders(dir);
  RunLock::check_free(dir);
}

void check_run_files(const std::string& dir) {
  for (const std::string& name : kRunFiles) require_regular_file(dir + "/" + name);
  std::error_code none;
  for (const fs::directory_entry& log : fs::directory_iterator(dir + "/logs", none)) {
    const bool own = log.path().filename().string().starts_with("rank-");
    if (own) require_regular_file(log.path().string());
  }
}

void make_run_folder(Files& files, const std::string& dir) try {
  std::vector<std::string> parents;  // of the folders to create
  for (fs::path path = dir; path.has_relative_path() && !exists(files, path);
       path = path.parent_path()) {
    parents.push_back(path.parent_path().string());
  }
  files.make_dirs(dir);
  for (const std::string& parent : parents) files.sync_dir(parent);
} catch (const FileError& error) {
  refuse(dir, error.what());
}

std::string new_run_dir(const std::string& dir) {
  return free_name(dir, dir + "-");
}

std::string old_run_dir(const std::string& dir) {
  return free_name(dir + "-old", dir + "-old-");
}

void set_aside(Files& files, const std::string& dir, const std::string& to) try {
  const RunLock lock(dir);
  files.rename(dir, to);
  files.sync_dir(folder_of(to));
} catch (const FileError& error) {
  throw IoError(text("the old run cannot be kept: {}", error.what()),
                text("move '{}' away by hand, or use --new", dir));
}

void try_run_folder(Files& files, const std::string& dir) try {
  const std::string probe = dir + "/.probe";
  write_file_atomically(files, probe, "accel-run");
  files.remove_tree(probe);
} catch (const FileError& error) {
  refuse(dir, error.what());
}

}  // namespace accel
