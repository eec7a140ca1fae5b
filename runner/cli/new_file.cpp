#include "runner/cli/new_file.h"

#include <fstream>

#include "core/error.h"

namespace accel {

void check_new_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  throw Error(ExitCode::kRecipe, "'" + path.string() + "' exists already",
              "give another name; nothing is overwritten");
}

void write_new_file(const std::filesystem::path& path, const std::string& text) {
  check_new_file(path);
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw IoError("cannot write '" + path.string() + "'");
}

}  // namespace accel
