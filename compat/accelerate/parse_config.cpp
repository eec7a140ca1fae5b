#include "compat/accelerate/parse_config.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "core/recipe/parse.h"

namespace accel {
namespace {

[[noreturn]] void unreadable(const std::string& path, const std::string& reason) {
  throw RecipeError({{{}, text("cannot read the config '{}': {}", path, reason), {}}});
}

}  // namespace

std::string config_file_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) unreadable(path, "it is a folder");
  // Opening one waits for a writer. A shell's <(command) is /dev/fd/<n>.
  if (std::filesystem::is_fifo(path, error) && !path.starts_with("/dev/")) {
    unreadable(path, "it is a named pipe");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) unreadable(path, std::strerror(errno));
  // One byte over the limit, so that parse_recipe() reports files that are too large.
  std::string text(kMaxRecipeBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) unreadable(path, "the disk failed");
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

Node parse_config(const std::string& path) {
  Node tree = parse_recipe(path, config_file_text(path));
  if (tree.map()) return tree;
  throw RecipeError({{tree.where,
                      tree.null() ? "the config is empty"
                                  : text("a config is a section, not {}", tree.describe()),
                      {}}});
}

}  // namespace accel
