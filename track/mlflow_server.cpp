// A run on an MLflow server: entries go to an outbox, and from there in batches to the server.
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "track/exclusive_folder.h"
#include "track/mlflow_lines.h"
#include "track/mlflow_sink.h"
#include "track/outbox.h"
#include "track/remote_tracker.h"
#include "track/run_names.h"
#include "track/tracker_runs.h"
#include "track/values.h"

namespace accel {
namespace {

using Json = nlohmann::json;

constexpr auto kOutboxFile = "/outbox.jsonl";
/// The run of the outbox, for a process that sends it later.
constexpr auto kIdentityFile = "/run.json";
constexpr auto kUidTag = "accel_run.uid";
constexpr auto kApi = "/api/2.0/mlflow/";

std::string url_encoded(std::string_view text, std::string_view also_plain = "") {
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

Json tag_json(const std::string& key, const std::string& value) {
  return {{"key", valid_utf8(key)}, {"value", valid_utf8(value)}};
}

std::string or_else(const std::string& value, const std::string& fallback) {
  return value.empty() ? fallback : value;
}

/// Requests to the server at `address`, with their headers.
class MlflowRequests {
 public:
  explicit MlflowRequests(MlflowServerAddress address) : address_(std::move(address)) {}

  HttpRequest find_experiment(const std::string& name) const {
    return call("GET", "experiments/get-by-name?experiment_name=" + url_encoded(name), "");
  }

  HttpRequest create_experiment(const std::string& name) const {
    return call("POST", "experiments/create", "{\"name\":" + json_text(name) + '}');
  }

  /// Finds a run by its `uid` tag, in case the response to its creation was lost.
  HttpRequest find_run(const std::string& experiment_id, const std::string& uid) const {
    const Json body = {{"experiment_ids", {experiment_id}},
                       {"filter", "tags.`" + std::string(kUidTag) + "` = '" + uid + "'"},
                       {"max_results", 1}};
    return call("POST", "runs/search", body.dump());
  }

  HttpRequest create_run(const std::string& experiment_id, const std::string& uid,
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

  HttpRequest log(const std::string& run_id, MlflowEntry entry,
                  const std::vector<std::string>& lines) const {
    Json items = Json::array();
    for (const std::string& line : lines) {
      const Json json = parsed_json(line);
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
    const char* list = entry == MlflowEntry::kMetric  ? "metrics"
                       : entry == MlflowEntry::kParam ? "params"
                                                      : "tags";
    return call("POST", "runs/log-batch", Json({{"run_id", run_id}, {list, items}}).dump());
  }

  /// `line` is null for a resumed run.
  HttpRequest update(const std::string& run_id, const std::string* line) const {
    Json body = {{"run_id", run_id}, {"status", "RUNNING"}};
    if (line) {
      const Json json = parsed_json(*line);
      body["status"] = text_at(json, "/end");
      if (json.contains("time")) body["end_time"] = json["time"];
    }
    return call("POST", "runs/update", body.dump());
  }

  /// `root` is the run's artifact root, from the server.
  HttpRequest upload(const std::string& root, const std::string& path, std::string bytes) const {
    HttpRequest request = call("PUT", "", std::move(bytes));
    request.url =
        address_.url + "/api/2.0/mlflow-artifacts/artifacts/" + url_encoded(root + '/' + path, "/");
    request.headers.front() = "Content-Type: application/octet-stream";
    return request;
  }

 private:
  HttpRequest call(const char* method, const std::string& path, std::string body) const {
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

  MlflowServerAddress address_;
};

/// Fields of a response; "" when absent.
struct MlflowResponse {
  explicit MlflowResponse(const std::string& body) {
    const Json json = parsed_json(body);
    experiment_id =
        or_else(text_at(json, "/experiment/experiment_id"), text_at(json, "/experiment_id"));
    run_id = or_else(text_at(json, "/run/info/run_id"), text_at(json, "/runs/0/info/run_id"));
    artifact_uri = or_else(text_at(json, "/run/info/artifact_uri"),
                           text_at(json, "/runs/0/info/artifact_uri"));
    error_code = text_at(json, "/error_code");
    constexpr size_t kLongestMessage = 200;
    message = valid_utf8(text_at(json, "/message").substr(0, kLongestMessage));
  }

  std::string experiment_id;
  std::string run_id;
  std::string artifact_uri;
  std::string error_code;
  std::string message;  ///< at most 200 characters
};

// Limits of a request.
constexpr size_t kMaxMetrics = 1000;
constexpr size_t kMaxTexts = 100;
constexpr size_t kMaxRequestBytes = 800000;
constexpr std::string_view kProxied = "mlflow-artifacts:/";

class MlflowServer final : public MlflowSink, public RemoteTracker {
 public:
  MlflowServer(const MlflowServerAddress& address, const std::string& folder, MlflowRun run,
               const TrackerContext& context)
      : url_(address.url),
        requests_(address),
        folder_(context, folder),
        run_(std::move(run)),
        tracked_(tracked_run(context, "uid")),
        outbox_(folder_.path() + kOutboxFile, last_step(tracked_, context), &step_of_line) {
    run_.start_ms = tracked_.start_ms;
    write_file_atomically(folder_.path() + kIdentityFile, identity_text());
    const int64_t last = last_step(tracked_, context).value_or(0);
    outbox_.each([&](const std::string& line) {
      const MlflowEntry entry = mlflow_entry(line);
      if (entry == MlflowEntry::kParam) params_.insert(mlflow_text(line));
      if (entry != MlflowEntry::kEnd && mlflow_step(line).value_or(0) >= last) {
        seen_.insert(mlflow_identity(line));
      }
    });
  }

  /// Sends the entries of an earlier process, whose run is `identity`.
  MlflowServer(MlflowServerAddress address, const std::string& folder, const Json& identity)
      : url_(address.url),
        requests_(std::move(address)),
        folder_(folder),
        run_{identity.at("experiment"), identity.at("name"), identity.at("user"),
             identity.at("start_ms"), identity.at("tags")},
        tracked_{identity.at("uid"), identity.at("start_ms")},
        outbox_(folder_.path() + kOutboxFile, std::numeric_limits<int64_t>::max(), &step_of_line) {}

  void param(int64_t step, const std::string& key, const std::string& value) override {
    const auto [known, added] = params_.emplace(key, value);
    if (added) {
      outbox_.append(mlflow_text_line(step, "param", key, value));
    } else if (known->second != value) {  // MLflow's params are immutable
      post(mlflow_text_line(step, "tag", "changed." + key, value));
    }
  }

  void metrics(int64_t step, int64_t time_ms, std::span<const Measurement> values) override {
    for (const Measurement& value : values) post(mlflow_metric_line(step, time_ms, value));
  }

  void tag(int64_t step, const std::string& key, const std::string& value) override {
    post(mlflow_text_line(step, "tag", key, value));
  }

  void artifact(int64_t step, const std::string& path, std::string_view bytes) override {
    const std::string file = folder_.path() + "/artifacts/" + path;
    write_file_within(folder_.path(), file, bytes);
    post(mlflow_text_line(step, "artifact", path, file));
  }

  void flush(Flush how) override { outbox_.flush(how); }

  void end(RunStatus status, int64_t time_ms) override {
    const char* state = status == RunStatus::kFinished ? "FINISHED" : "FAILED";
    // An interrupted run can be resumed.
    if (status != RunStatus::kInterrupted) outbox_.append(mlflow_end_line(0, state, time_ms));
    outbox_.flush(Flush::kReadable);
  }

  std::map<std::string, std::string> ids() const override { return {{"uid", tracked_.id}}; }
  RemoteTracker* remote() override { return this; }
  bool pending() const override { return outbox_.ready(); }

  HttpRequest next() override {
    switch (stage_) {
      case Stage::kFindExperiment:
        return requests_.find_experiment(run_.experiment);
      case Stage::kCreateExperiment:
        return requests_.create_experiment(run_.experiment);
      case Stage::kFindRun:
        return requests_.find_run(experiment_id_, tracked_.id);
      case Stage::kCreateRun:
        return requests_.create_run(experiment_id_, tracked_.id, run_);
      case Stage::kReopen:
        return requests_.update(run_id_, nullptr);
      case Stage::kLog:
        break;
    }
    return next_batch();
  }

  Verdict replied(const HttpReply& reply) override {
    const MlflowResponse response(reply.body);
    if (reply.status == 401 || reply.status == 403) {
      return {text("was denied access by {}: HTTP status {}; set MLFLOW_TRACKING_USERNAME and "
                   "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN",
                   origin_of_url(url_), reply.status),
              true};
    }
    return stage_ == Stage::kLog ? finish_batch(reply, response) : open_run(reply, response);
  }

  std::string unsent_summary() const override {
    std::vector<std::string> counts;
    if (outbox_.unsent() > 0) {
      counts.push_back(
          text("{} entries; they are kept in '{}' and sent when the run is resumed, or by "
               "'accel-run track flush RUN'",
               outbox_.unsent(), outbox_.path()));
    }
    if (rejected_ > 0) counts.push_back(text("{} rejected entries", rejected_));
    return joined(counts, "; ");
  }

 private:
  /// The address is without credentials.
  std::string identity_text() const {
    const Json identity = {{"url", url_},       {"uid", tracked_.id},
                           {"name", run_.name}, {"experiment", run_.experiment},
                           {"user", run_.user}, {"start_ms", run_.start_ms},
                           {"tags", run_.tags}};
    return identity.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  }

  /// The last step whose entries are kept; none where the outbox starts empty.
  static std::optional<int64_t> last_step(const TrackedRun& run, const TrackerContext& context) {
    constexpr int64_t kBeforeAll = -1;
    if (run.resumes) return context.first_step;
    return run.exists ? std::optional(kBeforeAll) : std::nullopt;
  }

  bool may_have_ended() const { return tracked_.resumes || tracked_.exists; }

  /// A resumed run drops the recorded end.
  static std::optional<int64_t> step_of_line(std::string_view line) {
    if (mlflow_entry(line) == MlflowEntry::kEnd) return std::numeric_limits<int64_t>::max();
    return mlflow_step(line);
  }

  /// State of the connection; the last one is final.
  enum class Stage { kFindExperiment, kCreateExperiment, kFindRun, kCreateRun, kReopen, kLog };

  /// Appends the entry unless it was attempted before the resume.
  void post(const std::string& line) {
    if (seen_.erase(mlflow_identity(line)) == 0) outbox_.append(line);
  }

  HttpRequest next_batch() {
    size_t bytes = 0;
    MlflowEntry kind = MlflowEntry::kUnknown;
    batch_ = outbox_.first([&](const std::vector<std::string>& taken, const std::string& line) {
      const MlflowEntry entry = mlflow_entry(line);
      bytes += line.size();
      if (taken.empty()) {
        kind = entry;
        return true;
      }
      const bool alone = single_ > 0 || kind > MlflowEntry::kTag;
      const size_t limit = alone ? 1 : kind == MlflowEntry::kMetric ? kMaxMetrics : kMaxTexts;
      return entry == kind && taken.size() < limit && bytes < kMaxRequestBytes;
    });
    if (batch_.empty()) throw IoError(text("'{}' lacks unsent entries", outbox_.path()));
    outbox_.sending(batch_);
    if (kind == MlflowEntry::kEnd) return requests_.update(run_id_, &batch_.front());
    if (kind == MlflowEntry::kArtifact) return next_upload(batch_.front());
    return requests_.log(run_id_, kind, batch_);
  }

  HttpRequest next_upload(const std::string& line) {
    const auto [path, file] = mlflow_text(line);
    // Only Python can write there: the path of the file is logged.
    if (!artifact_root_.starts_with(kProxied)) {
      const std::string tag = mlflow_text_line(0, "tag", "artifact." + path, file);
      return requests_.log(run_id_, MlflowEntry::kTag, {tag});
    }
    std::ifstream in(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    return requests_.upload(artifact_root_.substr(kProxied.size()), path, std::move(bytes));
  }

  Verdict open_run(const HttpReply& reply, const MlflowResponse& response) {
    const bool ok = reply.ok();
    if (stage_ == Stage::kFindExperiment && ok && !response.experiment_id.empty()) {
      experiment_id_ = response.experiment_id;
      stage_ = Stage::kFindRun;
    } else if (stage_ == Stage::kFindExperiment &&
               response.error_code == "RESOURCE_DOES_NOT_EXIST") {
      stage_ = Stage::kCreateExperiment;
    } else if (stage_ == Stage::kCreateExperiment &&
               (ok || response.error_code == "RESOURCE_ALREADY_EXISTS")) {
      stage_ = Stage::kFindExperiment;
    } else if (stage_ == Stage::kFindRun && ok) {
      stage_ = response.run_id.empty() ? Stage::kCreateRun
               : may_have_ended()      ? Stage::kReopen
                                       : Stage::kLog;
    } else if (stage_ == Stage::kCreateRun && ok && !response.run_id.empty()) {
      stage_ = Stage::kLog;
    } else if (stage_ == Stage::kReopen && ok) {
      stage_ = Stage::kLog;
      return {};
    } else {
      const std::string details = response.message.empty() ? "" : ": " + response.message;
      return {text("cannot open a run on {}: HTTP status {}{}", origin_of_url(url_), reply.status,
                   details),
              true};
    }
    run_id_ = response.run_id;
    artifact_root_ = response.artifact_uri;
    return {};
  }

  Verdict finish_batch(const HttpReply& reply, const MlflowResponse& response) {
    if (reply.status == 404 && response.error_code == "RESOURCE_DOES_NOT_EXIST") {
      return {text("cannot find its run on {}: {}", origin_of_url(url_), response.message), true};
    }
    if (!reply.ok() && batch_.size() > 1) {  // one bad entry rejects the batch
      single_ = batch_.size();
      return {};
    }
    if (single_ > 0) --single_;
    outbox_.done(batch_);
    if (reply.ok()) return {};
    ++rejected_;
    return {text("had an entry rejected: {}", response.message), false};
  }

  std::string url_;
  MlflowRequests requests_;
  ExclusiveFolder folder_;
  MlflowRun run_;
  TrackedRun tracked_;  ///< its id is a tag of the run on the server
  Outbox outbox_;
  std::map<std::string, std::string> params_;
  std::multiset<std::string> seen_;

  Stage stage_ = Stage::kFindExperiment;
  std::string experiment_id_;
  std::string run_id_;
  std::string artifact_root_;
  std::vector<std::string> batch_;  ///< in flight
  size_t single_ = 0;               ///< lines to send one by one, to isolate a rejected one
  size_t rejected_ = 0;
};

}  // namespace

std::unique_ptr<MlflowSink> make_mlflow_server(const MlflowServerAddress& address,
                                               const std::string& folder, const MlflowRun& run,
                                               const TrackerContext& context) {
  return std::make_unique<MlflowServer>(address, folder, run, context);
}

std::unique_ptr<RemoteTracker> open_mlflow_outbox(const std::string& folder) {
  const std::string path = folder + kIdentityFile;
  std::ifstream in(path, std::ios::binary);
  if (!in) return nullptr;
  const std::string content(std::istreambuf_iterator<char>(in), {});
  try {
    const Json identity = Json::parse(content);
    const MlflowServerAddress address{identity.at("url"), mlflow_authorization()};
    return std::make_unique<MlflowServer>(address, folder, identity);
  } catch (const Json::exception& error) {
    throw DataError(text("'{}' is damaged: {}", path, error.what()),
                    "resume the run: it sends the entries, too");
  }
}

}  // namespace accel
