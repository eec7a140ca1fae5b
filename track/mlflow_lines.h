// Lines of the outbox of an MLflow server, and fields of JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/api/tracker.h"

namespace accel {

/// Kinds of outbox lines; a request has lines of one kind.
enum class MlflowEntry { kMetric, kParam, kTag, kArtifact, kEnd, kUnknown };
/// {"step":1,"metric":"loss","value":0.5,"time":1700000000000}
std::string mlflow_metric_line(int64_t step, int64_t time_ms, const Measurement& value);
/// `kind` is "param", "tag" or "artifact"; the value of an artifact is the path of its file.
std::string mlflow_text_line(int64_t step, const char* kind, const std::string& key,
                             const std::string& value);
std::string mlflow_end_line(int64_t step, const std::string& status, int64_t time_ms);

MlflowEntry mlflow_entry(std::string_view line);
/// Null for an unknown line.
std::optional<int64_t> mlflow_step(std::string_view line);
/// The line without its time: equal for the same entry before and after a resume.
std::string mlflow_identity(std::string_view line);
/// Key and value of a text line.
std::pair<std::string, std::string> mlflow_text(const std::string& line);

/// Discarded for invalid JSON; never throws.
nlohmann::json parsed_json(std::string_view text);
/// The string or number at `path` as text; "" when absent.
std::string text_at(const nlohmann::json& json, const char* path);

}  // namespace accel
