// Patterns of paths, as Hugging Face's libraries read them.
#pragma once

#include <string>

namespace accel {

/// `*`, `?` and `[abc]` stand for characters within a name, as of a shell, and `**` in place of a
/// name for any number of folders, or at the end for whatever is below.
bool path_matches(const std::string& pattern, const std::string& path);

}  // namespace accel
