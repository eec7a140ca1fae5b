// Files that verbs make for the user.
#pragma once

#include <filesystem>
#include <string>

namespace accel {

/// Throws Error(kRecipe) when something is at `path`.
void check_new_file(const std::filesystem::path& path);
/// Writes a file that must not exist yet. Throws as above, and IoError.
void write_new_file(const std::filesystem::path& path, const std::string& text);

}  // namespace accel
