#include "track/mlflow_lines.h"

#include <array>
#include <charconv>

#include "core/base/json_text.h"
#include "track/values.h"

namespace accel {
namespace {

constexpr std::array<std::string_view, 5> kEntries = {"\"metric\"", "\"param\"", "\"tag\"",
                                                      "\"artifact\"", "\"end\""};
constexpr std::string_view kEntryStart = "{\"step\":";

std::string start_of_line(int64_t step, const char* kind, const std::string& key) {
  return std::string(kEntryStart) + std::to_string(step) + ",\"" + kind + "\":" + json_text(key);
}

}  // namespace

std::string mlflow_metric_line(int64_t step, int64_t time_ms, const Measurement& value) {
  return start_of_line(step, "metric", value.first) +
         ",\"value\":" + quoted_python_json(value.second) + ",\"time\":" + std::to_string(time_ms) +
         '}';
}

std::string mlflow_text_line(int64_t step, const char* kind, const std::string& key,
                             const std::string& value) {
  return start_of_line(step, kind, key) + ",\"value\":" + json_text(value) + '}';
}

std::string mlflow_end_line(int64_t step, const std::string& status, int64_t time_ms) {
  return start_of_line(step, "end", status) + ",\"time\":" + std::to_string(time_ms) + '}';
}

MlflowEntry mlflow_entry(std::string_view line) {
  const size_t comma = line.find(',');
  if (!line.starts_with(kEntryStart) || comma == std::string_view::npos) {
    return MlflowEntry::kUnknown;
  }
  size_t entry = 0;
  while (entry < kEntries.size() && !line.substr(comma + 1).starts_with(kEntries[entry])) ++entry;
  return static_cast<MlflowEntry>(entry);
}

std::optional<int64_t> mlflow_step(std::string_view line) {
  if (mlflow_entry(line) == MlflowEntry::kUnknown || !line.ends_with('}')) return std::nullopt;
  int64_t step = 0;
  const char* digits = line.data() + kEntryStart.size();
  const auto [end, error] = std::from_chars(digits, line.data() + line.size(), step);
  if (error != std::errc() || *end != ',') return std::nullopt;
  return step;
}

std::string mlflow_identity(std::string_view line) {
  return std::string(line.substr(0, line.rfind(",\"time\":")));
}

std::pair<std::string, std::string> mlflow_text(const std::string& line) {
  const nlohmann::json json = parsed_json(line);
  std::string key;
  for (const char* kind : {"/param", "/tag", "/artifact"})
    key = key.empty() ? text_at(json, kind) : key;
  return {key, text_at(json, "/value")};
}

nlohmann::json parsed_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

std::string text_at(const nlohmann::json& json, const char* path) {
  const nlohmann::json::json_pointer pointer(path);
  if (!json.is_structured() || !json.contains(pointer)) return "";
  const nlohmann::json& value = json.at(pointer);
  return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
}

}  // namespace accel
