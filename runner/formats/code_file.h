// Files with code that is going to be run.
#pragma once

#include <string>

namespace accel {

/// Throws Error (kRecipe) when every user of this machine may change the file at `path` or put
/// another into its folder: whoever can write code that is loaded can do all that the user can.
void check_code_writers(const std::string& path);

}  // namespace accel
