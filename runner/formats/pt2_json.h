// Parts of a .pt2 archive's JSON, refused by name where they are not what they must be.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runner/formats/memory_budget.h"
#include "runner/formats/pt2.h"

namespace accel {

/// All throw FormatError. `object` may be anything.
const nlohmann::json& pt2_member(const nlohmann::json& object, const char* key);
const nlohmann::json& pt2_list(const nlohmann::json& object, const char* key);
std::string pt2_text(const nlohmann::json& value, const char* what);
int64_t pt2_integer(const nlohmann::json& value, const char* what);
bool pt2_flag(const nlohmann::json& value, const char* what);
/// The one key of an object that has exactly one, which is how the format writes alternatives.
std::string pt2_kind(const nlohmann::json& value);

/// The program in a models/*.json. `budget` bounds what it may take.
Pt2Program read_pt2_program(const nlohmann::json& json, MemoryBudget& budget);

}  // namespace accel
