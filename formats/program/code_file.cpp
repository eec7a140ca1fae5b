#include "formats/program/code_file.h"

#include <sys/stat.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

void check_not_world_writable(const std::string& path) {
  struct stat state = {};
  if (stat(path.c_str(), &state) != 0) return;
  // In a folder with the sticky bit only the owner can replace a file.
  if (!(state.st_mode & S_IWOTH) || (S_ISDIR(state.st_mode) && (state.st_mode & S_ISVTX))) return;
  throw Error(
      ExitCode::kRecipe,
      text("'{}' is writable by every user of this machine: code is not loaded from it", path),
      text("chmod o-w '{}'", path));
}

}  // namespace

void check_code_writers(const std::string& path) {
  check_not_world_writable(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  check_not_world_writable(folder.empty() ? "." : folder);
}

}  // namespace accel
