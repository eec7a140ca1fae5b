#include "runner/formats/code_file.h"

#include <sys/stat.h>

#include <filesystem>

#include "core/error.h"

namespace accel {
namespace {

void check_one(const std::string& path) {
  struct stat state = {};
  if (stat(path.c_str(), &state) != 0) return;
  // In a folder with the sticky bit nobody replaces another's file.
  if (!(state.st_mode & S_IWOTH) || (S_ISDIR(state.st_mode) && (state.st_mode & S_ISVTX))) return;
  throw Error(
      ExitCode::kRecipe,
      "'" + path + "' can be changed by every user of this machine, and so is no place for code",
      "chmod o-w '" + path + "'");
}

}  // namespace

void check_code_writers(const std::string& path) {
  check_one(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  check_one(folder.empty() ? "." : folder);
}

}  // namespace accel
