// What an MLflow server is asked, and what its answers say.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/track/mlflow_sink.h"

namespace accel {

/// The kinds of outbox lines, each sent in requests of its own.
enum class MlflowEntry { kMetric, kParam, kTag, kArtifact, kEnd, kUnknown };

/// A line of the outbox: {"step":1,"metric":"loss","value":0.5,"time":1700000000000}
std::string mlflow_metric_line(int64_t step, int64_t time_ms, const Measurement& value);
/// `kind` is "param", "tag" or "artifact"; an artifact's value is where its bytes lie.
std::string mlflow_text_line(int64_t step, const char* kind, const std::string& key,
                             const std::string& value);
std::string mlflow_end_line(int64_t step, const std::string& status, int64_t time_ms);

MlflowEntry mlflow_entry(std::string_view line);
/// Null for a line that is none of the above.
std::optional<int64_t> mlflow_step(std::string_view line);
/// The line without its time: equal for what two lives of a run log alike.
std::string mlflow_identity(std::string_view line);
/// Key and value of a text line.
std::pair<std::string, std::string> mlflow_text(const std::string& line);

/// Asks the server at `address`; fills in headers.
class MlflowRequests {
 public:
  explicit MlflowRequests(MlflowServerAddress address) : address_(std::move(address)) {}

  HttpRequest find_experiment(const std::string& name) const;
  HttpRequest create_experiment(const std::string& name) const;
  /// By the tag that marks our run, should it have been created unheard.
  HttpRequest find_run(const std::string& experiment_id, const std::string& uid) const;
  HttpRequest create_run(const std::string& experiment_id, const std::string& uid,
                         const MlflowRun& run) const;
  HttpRequest log(const std::string& run_id, MlflowEntry entry,
                  const std::vector<std::string>& lines) const;
  /// `line` is null for a run that goes on.
  HttpRequest update(const std::string& run_id, const std::string* line) const;
  /// `root` is the run's artifact place as the server gave it.
  HttpRequest upload(const std::string& root, const std::string& path, std::string bytes) const;

 private:
  HttpRequest call(const char* method, const std::string& path, std::string body) const;
  MlflowServerAddress address_;
};

/// What a reply holds, "" for what it has not.
struct MlflowAnswer {
  explicit MlflowAnswer(const std::string& body);
  std::string experiment_id;
  std::string run_id;
  std::string artifact_uri;
  std::string error_code;
  std::string message;  ///< at most 200 characters
};

}  // namespace accel
