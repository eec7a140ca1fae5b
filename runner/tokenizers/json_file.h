// A file of JSON, read with bounds.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "runner/tokenizers/json_place.h"

namespace accel {

/// Calls `use` with the file's object and its text, which live no longer than the call. Throws
/// DataError: what is wrong with the file, or what `use` throws as FormatError, in which file.
void read_json_file(const std::filesystem::path& path,
                    const std::function<void(const JsonPlace&, std::string_view)>& use);

/// The same for a text; what it throws is FormatError.
void read_json_text(std::string_view text,
                    const std::function<void(const JsonPlace&, std::string_view)>& use);

}  // namespace accel
