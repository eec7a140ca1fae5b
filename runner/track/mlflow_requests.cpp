#include "runner/track/mlflow_requests.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "runner/track/config_value.h"

namespace accel {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kLineStart = "{\"step\":";
constexpr auto kUidTag = "accel_run.uid";
constexpr auto kApi = "/api/2.0/mlflow/";

std::string url_text(std::string_view text, std::string_view also_plain = "") {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos ||
                       also_plain.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string start_of_line(int64_t step, const char* kind, const std::string& key) {
  return std::string(kLineStart) + std::to_string(step) + ",\"" + kind + "\":" + json_text(key);
}

/// MLflow takes what is not finite as texts.
std::string metric_json(double value) {
  const std::string text = python_json(value);
  return text.front() == 'N' || text.find('I') != std::string::npos ? '"' + text + '"' : text;
}

/// Never throws; what is no JSON is null.
Json parsed(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

/// The text or number at `path`, as text; "" when there is none.
std::string text_at(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  if (!json.is_structured() || !json.contains(pointer)) return "";
  const Json& value = json.at(pointer);
  return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
}

Json tag_json(const std::string& key, const std::string& value) {
  return {{"key", valid_utf8(key)}, {"value", valid_utf8(value)}};
}

std::string first_of(const std::string& one, const std::string& other) {
  return one.empty() ? other : one;
}

}  // namespace

std::string mlflow_metric_line(int64_t step, int64_t time_ms, const Measurement& value) {
  return start_of_line(step, "metric", value.first) + ",\"value\":" + metric_json(value.second) +
         ",\"time\":" + std::to_string(time_ms) + '}';
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
  if (!line.starts_with(kLineStart) || comma == std::string_view::npos) {
    return MlflowEntry::kUnknown;
  }
  const std::string_view rest = line.substr(comma + 1);
  if (rest.starts_with("\"metric\"")) return MlflowEntry::kMetric;
  if (rest.starts_with("\"param\"")) return MlflowEntry::kParam;
  if (rest.starts_with("\"tag\"")) return MlflowEntry::kTag;
  if (rest.starts_with("\"artifact\"")) return MlflowEntry::kArtifact;
  if (rest.starts_with("\"end\"")) return MlflowEntry::kEnd;
  return MlflowEntry::kUnknown;
}

std::optional<int64_t> mlflow_step(std::string_view line) {
  if (mlflow_entry(line) == MlflowEntry::kUnknown || !line.ends_with('}')) return std::nullopt;
  int64_t step = 0;
  const char* digits = line.data() + kLineStart.size();
  const auto [end, error] = std::from_chars(digits, line.data() + line.size(), step);
  if (error != std::errc() || *end != ',') return std::nullopt;
  return step;
}

std::string mlflow_identity(std::string_view line) {
  const size_t time = line.rfind(",\"time\":");
  return std::string(line.substr(0, time));
}

std::pair<std::string, std::string> mlflow_text(const std::string& line) {
  const Json json = parsed(line);
  std::string key;
  for (const char* kind : {"/param", "/tag", "/artifact"}) key = first_of(key, text_at(json, kind));
  return {key, text_at(json, "/value")};
}

HttpRequest MlflowRequests::find_experiment(const std::string& name) const {
  return call("GET", "experiments/get-by-name?experiment_name=" + url_text(name), "");
}

HttpRequest MlflowRequests::create_experiment(const std::string& name) const {
  return call("POST", "experiments/create", "{\"name\":" + json_text(name) + '}');
}

HttpRequest MlflowRequests::find_run(const std::string& experiment_id,
                                     const std::string& uid) const {
  const Json body = {{"experiment_ids", {experiment_id}},
                     {"filter", "tags.`" + std::string(kUidTag) + "` = '" + uid + "'"},
                     {"max_results", 1}};
  return call("POST", "runs/search", body.dump());
}

HttpRequest MlflowRequests::create_run(const std::string& experiment_id, const std::string& uid,
                                       const MlflowRun& run) const {
  Json tags = Json::array({tag_json(kUidTag, uid), tag_json("mlflow.user", run.user)});
  for (const auto& [key, value] : run.tags) tags.push_back(tag_json(key, value));
  const Json body = {{"experiment_id", experiment_id},
                     {"start_time", run.start_ms},
                     {"run_name", valid_utf8(run.name)},
                     {"user_id", valid_utf8(run.user)},
                     {"tags", tags}};
  return call("POST", "runs/create", body.dump());
}

HttpRequest MlflowRequests::log(const std::string& run_id, MlflowEntry entry,
                                const std::vector<std::string>& lines) const {
  Json items = Json::array();
  for (const std::string& line : lines) {
    const Json json = parsed(line);
    if (!json.is_object()) continue;
    if (entry == MlflowEntry::kMetric) {
      items.push_back({{"key", json.value("metric", "")},
                       {"value", json.value("value", Json(0))},
                       {"timestamp", json.value("time", Json(0))},
                       {"step", json.value("step", Json(0))}});
    } else {
      const auto [key, value] = mlflow_text(line);
      items.push_back(tag_json(key, value));
    }
  }
  const char* place = entry == MlflowEntry::kMetric  ? "metrics"
                      : entry == MlflowEntry::kParam ? "params"
                                                     : "tags";
  return call("POST", "runs/log-batch", Json({{"run_id", run_id}, {place, items}}).dump());
}

HttpRequest MlflowRequests::update(const std::string& run_id, const std::string* line) const {
  Json body = {{"run_id", run_id}, {"status", "RUNNING"}};
  if (line) {
    const Json json = parsed(*line);
    body["status"] = text_at(json, "/end");
    if (json.contains("time")) body["end_time"] = json["time"];
  }
  return call("POST", "runs/update", body.dump());
}

HttpRequest MlflowRequests::upload(const std::string& root, const std::string& path,
                                   std::string bytes) const {
  HttpRequest request = call("PUT", "", std::move(bytes));
  request.url =
      address_.url + "/api/2.0/mlflow-artifacts/artifacts/" + url_text(root + '/' + path, "/");
  request.headers.front() = "Content-Type: application/octet-stream";
  return request;
}

HttpRequest MlflowRequests::call(const char* method, const std::string& path,
                                 std::string body) const {
  HttpRequest request;
  request.method = method;
  request.url = address_.url + kApi + path;
  request.headers.push_back("Content-Type: application/json");
  if (!address_.authorization.empty()) {
    request.headers.push_back("Authorization: " + address_.authorization);
  }
  request.body = std::move(body);
  return request;
}

MlflowAnswer::MlflowAnswer(const std::string& body) {
  const Json json = parsed(body);
  experiment_id =
      first_of(text_at(json, "/experiment/experiment_id"), text_at(json, "/experiment_id"));
  run_id = first_of(text_at(json, "/run/info/run_id"), text_at(json, "/runs/0/info/run_id"));
  artifact_uri =
      first_of(text_at(json, "/run/info/artifact_uri"), text_at(json, "/runs/0/info/artifact_uri"));
  error_code = text_at(json, "/error_code");
  constexpr size_t kLongestMessage = 200;
  message = valid_utf8(text_at(json, "/message").substr(0, kLongestMessage));
}

}  // namespace accel
