// Typed access to the JSON of a .pt2 archive.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "formats/program/pt2.h"
#include "formats/untrusted.h"

namespace accel {

/// All throw FormatError. `object` may be anything.
const nlohmann::json& pt2_member(const nlohmann::json& object, const char* key);
const nlohmann::json& pt2_list(const nlohmann::json& object, const char* key);
std::string pt2_text(const nlohmann::json& value, const char* what);
int64_t pt2_integer(const nlohmann::json& value, const char* what);
bool pt2_flag(const nlohmann::json& value, const char* what);
/// The key of an object with exactly one key: the format's encoding of a union.
std::string pt2_kind(const nlohmann::json& value);

/// Reads the program of a models/*.json within `budget`.
Pt2Program read_pt2_program(const nlohmann::json& json, MemoryBudget& budget);

}  // namespace accel
