#include "runner/loop/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "core/error.h"
#include "runner/checkpoint/run_lock.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

void replace(Files& files, const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  files.remove_tree(draft);
  const std::unique_ptr<OutputFile> file = files.create(draft);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
  files.rename(draft, path);
}

[[noreturn]] void refuse(const std::string& dir, const std::string& why) {
  throw IoError("the run folder '" + dir + "' cannot be used: " + why,
                "run in a folder with free space that you may write to");
}

bool is_there(Files& files, const fs::path& path) {
  for (const DirEntry& entry : files.list(path.parent_path().string())) {
    if (entry.name == path.filename()) return true;
  }
  return false;
}

}  // namespace

void check_run_folder(const std::string& dir) {
  fs::path there = fs::absolute(dir).lexically_normal();
  std::error_code unknown;
  while (!fs::exists(there, unknown) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, unknown)) refuse(dir, "'" + there.string() + "' is no folder");
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    refuse(dir, "'" + there.string() + "' cannot be written to: " + std::strerror(errno));
  }
  RunLock::check_free(dir);
}

void make_run_folder(Files& files, const std::string& dir) try {
  std::vector<std::string> parents;  // of folders that are new
  for (fs::path path = dir; path.has_relative_path() && !is_there(files, path);
       path = path.parent_path()) {
    parents.push_back(path.parent_path().string());
  }
  files.make_dirs(dir);
  for (const std::string& parent : parents) files.sync_dir(parent);
} catch (const FileError& error) {
  refuse(dir, error.what());
}

void try_run_folder(Files& files, const std::string& dir) try {
  const std::string probe = dir + "/.probe";
  replace(files, probe, "accel-run");
  files.remove_tree(probe);
} catch (const FileError& error) {
  refuse(dir, error.what());
}

void write_whole(const std::string& path, const std::string& text) {
  DiskFiles files;
  try {
    replace(files, path, text);
    files.sync_dir(fs::path(path).parent_path().string());
  } catch (const FileError& error) {
    throw IoError(error.what());
  }
}

}  // namespace accel
