// Permission check of files with code to load.
#pragma once

#include <string>

namespace accel {

/// Throws Error (kRecipe) when the file at `path` or its folder is writable by every user: whoever
/// can write the code gets the permissions of the user who loads it.
void check_code_writers(const std::string& path);

}  // namespace accel
