// Strict, bounded parsing of JSON from other programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/untrusted.h"

namespace accel {

/// Parses an object. Throws FormatError, beginning with `what`, for anything else, duplicate keys,
/// more than `max_depth` levels, a NUL byte, and when `budget` is exceeded.
nlohmann::json parse_strict_json(std::string_view text, const std::string& what, int max_depth,
                                 MemoryBudget& budget);

/// As parse_strict_json(), for what Python's json.dumps() writes beyond JSON: NaN and infinities
/// become null, lone surrogates the replacement character U+FFFD.
nlohmann::json parse_python_json(std::string_view text, const std::string& what, int max_depth,
                                 MemoryBudget& budget);

}  // namespace accel
