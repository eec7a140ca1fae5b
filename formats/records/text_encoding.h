// Encodings of text files: UTF-8, and UTF-16, which spreadsheet programs write.
#pragma once

#include <string>

#include "core/base/mapped_file.h"

namespace accel {

/// A file with a byte order mark of UTF-8 or UTF-16 as UTF-8 without one; other files as they are.
/// Throws DataError with `name` for invalid UTF-16 and UTF-8.
SharedBytes as_utf8(SharedBytes file, const std::string& name);

}  // namespace accel
