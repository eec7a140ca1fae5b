// Glob patterns of names and paths.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// fnmatch(3) of a name: `*` matches any run of characters, dots and slashes included, `?` one
/// character, `[abc]` one of a set.
bool name_matches(const std::string& pattern, const std::string& name);
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

/// A path pattern as Hugging Face's libraries read it: `*`, `?` and `[abc]` match within one path
/// component; the component `**` matches any number of folders, and at the end every file below.
bool path_matches(const std::string& pattern, const std::string& path);

}  // namespace accel
