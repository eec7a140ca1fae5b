// JSON that another program wrote, refused where a plain parser would guess.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runner/formats/memory_budget.h"

namespace accel {

/// The object that `text` is. Throws FormatError, beginning with `what`, for anything else, a key
/// that comes twice, more than `max_depth` levels, a NUL, and when `budget` is spent.
nlohmann::json parse_strict_json(std::string_view text, const std::string& what, int max_depth,
                                 MemoryBudget& budget);

}  // namespace accel
