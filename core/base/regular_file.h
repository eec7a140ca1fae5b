// Regular files: the open of a pipe in their place would block.
#pragma once

#include <fstream>
#include <string>

namespace accel {

/// Throws IoError when `path` exists and is not a regular file.
void require_regular_file(const std::string& path);

/// Opens a regular file for reading; the stream is closed and has failed for anything else.
std::ifstream open_regular_file(const std::string& path);

}  // namespace accel
