// Names, times and stored ids of tracked runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace accel {

double seconds_since_1970();
int64_t milliseconds_since_1970();

/// The current time in UTC, by a strftime() format.
std::string utc_now(const char* format);

/// "20260131_120000-ID" in local time: the folder of an offline run.
std::string dated_name(double start_time, const std::string& id);

/// `length` characters of `alphabet`, from the system's random device: no generator of the run is
/// advanced.
std::string random_name(size_t length, std::string_view alphabet);

/// 32 hex digits.
std::string random_hex32();

/// A metric's name as a relative path: no empty, "." or ".." component; control characters and
/// bytes that are not UTF-8 become '_'.
std::string safe_path(std::string_view name);

/// The ids that a tracker has stored in a checkpoint.
using TrackerIdMap = std::map<std::string, std::string>;
/// "" and 0 when absent.
std::string id_text(const TrackerIdMap& ids, const std::string& key);
uint64_t id_number(const TrackerIdMap& ids, const std::string& key);

}  // namespace accel
