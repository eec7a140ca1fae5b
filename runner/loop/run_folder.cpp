#include "runner/loop/run_folder.h"

#include <filesystem>
#include <span>

#include "core/error.h"
#include "runner/checkpoint/files.h"

namespace accel {
namespace {

void replace(Files& files, const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  files.remove_tree(draft);
  const std::unique_ptr<OutputFile> file = files.create(draft);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
  files.rename(draft, path);
}

}  // namespace

void prepare_run_folder(const std::string& dir) {
  DiskFiles files;
  const std::string probe = dir + "/.probe";
  try {
    files.make_dirs(dir);
    replace(files, probe, "accel-run");
    files.remove_tree(probe);
  } catch (const FileError& error) {
    throw IoError("the run folder '" + dir + "' cannot be used: " + error.what(),
                  "run in a folder with free space that you may write to");
  }
}

void write_whole(const std::string& path, const std::string& text) {
  DiskFiles files;
  try {
    replace(files, path, text);
    files.sync_dir(std::filesystem::path(path).parent_path().string());
  } catch (const FileError& error) {
    throw IoError(error.what());
  }
}

}  // namespace accel
