// A run on an MLflow server: what it is told lies in an outbox first, and leaves it in batches.
#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

#include "core/error.h"
#include "runner/track/mlflow_requests.h"
#include "runner/track/outbox.h"
#include "runner/track/own_folder.h"
#include "runner/track/run_names.h"
#include "runner/track/sender.h"

namespace accel {
namespace {

constexpr size_t kMostMetrics = 1000;  // of one request, as MLflow allows
constexpr size_t kMostTexts = 100;
constexpr size_t kMostBytes = 800000;
constexpr std::string_view kProxied = "mlflow-artifacts:/";

class MlflowServer final : public MlflowSink, public Uplink {
 public:
  MlflowServer(const MlflowServerAddress& address, const std::string& folder, MlflowRun run,
               const TrackerContext& context)
      : url_(address.url),
        requests_(address),
        folder_(folder),
        run_(std::move(run)),
        outbox_(folder_.path() + "/outbox.jsonl",
                known_uid(context).empty() ? 0 : context.first_step, &step_of_line),
        uid_(known_uid(context)) {
    if (uid_.empty()) uid_ = random_hex32();
    resumed_ = context.first_step > 0;
    outbox_.each([&](const std::string& line) {
      const MlflowEntry entry = mlflow_entry(line);
      if (entry == MlflowEntry::kParam) params_.insert(mlflow_text(line));
      if (entry != MlflowEntry::kEnd && mlflow_step(line).value_or(0) > context.first_step) {
        seen_.insert(mlflow_identity(line));
      }
    });
  }

  void param(int64_t step, const std::string& key, const std::string& value) override {
    const auto [known, added] = params_.emplace(key, value);
    if (added) {
      outbox_.append(mlflow_text_line(step, "param", key, value));
    } else if (known->second != value) {  // MLflow keeps the first value for good
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
    replace_file(file, [&](AppendFile& out) { out.append(bytes); });
    post(mlflow_text_line(step, "artifact", path, file));
  }

  void flush(Flush how) override { outbox_.flush(how); }

  void end(RunStatus status, int64_t time_ms) override {
    if (status != RunStatus::kInterrupted) {  // an interrupted run is still to end
      outbox_.append(
          mlflow_end_line(0, status == RunStatus::kFinished ? "FINISHED" : "FAILED", time_ms));
    }
    outbox_.flush(Flush::kReadable);
  }

  std::map<std::string, std::string> ids() const override { return {{"uid", uid_}}; }
  Uplink* uplink() override { return this; }

  bool pending() const override { return outbox_.ready(); }
  HttpRequest next() override;
  Verdict replied(const HttpReply& reply) override;
  std::string left_over() const override;

 private:
  static std::string known_uid(const TrackerContext& context) {
    const auto known = context.ids.find("uid");
    return known == context.ids.end() || context.first_step == 0 ? "" : known->second;
  }

  /// An end is that of one life: a resumed run has another.
  static std::optional<int64_t> step_of_line(std::string_view line) {
    if (mlflow_entry(line) == MlflowEntry::kEnd) return std::numeric_limits<int64_t>::max();
    return mlflow_step(line);
  }

  /// What is asked next, in this order; the last goes on for ever.
  enum class Stage { kFindExperiment, kCreateExperiment, kFindRun, kCreateRun, kReopen, kLog };

  /// Unless the server may have seen it in an earlier life.
  void post(const std::string& line) {
    if (seen_.erase(mlflow_identity(line)) == 0) outbox_.append(line);
  }

  HttpRequest next_batch();
  HttpRequest next_upload(const std::string& line);
  Verdict opened(const HttpReply& reply, const MlflowAnswer& answer);
  Verdict logged(const HttpReply& reply, const MlflowAnswer& answer);

  std::string url_;
  MlflowRequests requests_;
  OwnFolder folder_;
  MlflowRun run_;
  Outbox outbox_;
  std::string uid_;  ///< marks the run at the server
  bool resumed_ = false;
  std::map<std::string, std::string> params_;
  std::multiset<std::string> seen_;

  Stage stage_ = Stage::kFindExperiment;
  std::string experiment_id_;
  std::string run_id_;
  std::string artifact_root_;
  std::vector<std::string> batch_;  ///< on its way
  size_t careful_ = 0;              ///< so many lines go alone, to find the one that was refused
  size_t refused_ = 0;
};

HttpRequest MlflowServer::next() {
  switch (stage_) {
    case Stage::kFindExperiment:
      return requests_.find_experiment(run_.experiment);
    case Stage::kCreateExperiment:
      return requests_.create_experiment(run_.experiment);
    case Stage::kFindRun:
      return requests_.find_run(experiment_id_, uid_);
    case Stage::kCreateRun:
      return requests_.create_run(experiment_id_, uid_, run_);
    case Stage::kReopen:
      return requests_.update(run_id_, nullptr);
    case Stage::kLog:
      break;
  }
  return next_batch();
}

HttpRequest MlflowServer::next_batch() {
  size_t bytes = 0;
  MlflowEntry kind = MlflowEntry::kUnknown;
  batch_ = outbox_.first([&](const std::vector<std::string>& taken, const std::string& line) {
    const MlflowEntry entry = mlflow_entry(line);
    bytes += line.size();
    if (taken.empty()) {
      kind = entry;
      return true;
    }
    const size_t most = careful_ > 0                   ? 1
                        : kind == MlflowEntry::kMetric ? kMostMetrics
                        : kind <= MlflowEntry::kTag    ? kMostTexts
                                                       : 1;
    return entry == kind && taken.size() < most && bytes < kMostBytes;
  });
  if (batch_.empty()) throw IoError("'" + outbox_.path() + "' has lost lines");
  outbox_.sending(batch_);
  if (kind == MlflowEntry::kEnd) return requests_.update(run_id_, &batch_.front());
  if (kind == MlflowEntry::kArtifact) return next_upload(batch_.front());
  return requests_.log(run_id_, kind, batch_);
}

HttpRequest MlflowServer::next_upload(const std::string& line) {
  const auto [path, file] = mlflow_text(line);
  if (!artifact_root_.starts_with(kProxied)) {  // a place only Python can write to: name the file
    const std::string tag = mlflow_text_line(0, "tag", "artifact." + path, file);
    return requests_.log(run_id_, MlflowEntry::kTag, {tag});
  }
  std::ifstream in(file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  return requests_.upload(artifact_root_.substr(kProxied.size()), path, std::move(bytes));
}

Uplink::Verdict MlflowServer::replied(const HttpReply& reply) {
  const MlflowAnswer answer(reply.body);
  if (reply.status == 401 || reply.status == 403) {
    return {"is not let in by " + server_of(url_) + " (" + std::to_string(reply.status) +
                "); set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                "MLFLOW_TRACKING_TOKEN",
            true};
  }
  return stage_ == Stage::kLog ? logged(reply, answer) : opened(reply, answer);
}

Uplink::Verdict MlflowServer::opened(const HttpReply& reply, const MlflowAnswer& answer) {
  const bool good = reply.good();
  if (stage_ == Stage::kFindExperiment && good && !answer.experiment_id.empty()) {
    experiment_id_ = answer.experiment_id;
    stage_ = Stage::kFindRun;
  } else if (stage_ == Stage::kFindExperiment && answer.error_code == "RESOURCE_DOES_NOT_EXIST") {
    stage_ = Stage::kCreateExperiment;
  } else if (stage_ == Stage::kCreateExperiment &&
             (good || answer.error_code == "RESOURCE_ALREADY_EXISTS")) {
    stage_ = Stage::kFindExperiment;
  } else if (stage_ == Stage::kFindRun && good) {
    stage_ = answer.run_id.empty() ? Stage::kCreateRun : resumed_ ? Stage::kReopen : Stage::kLog;
  } else if (stage_ == Stage::kCreateRun && good && !answer.run_id.empty()) {
    stage_ = Stage::kLog;
  } else if (stage_ == Stage::kReopen && good) {
    stage_ = Stage::kLog;
    return {};
  } else {
    const std::string why = answer.message.empty() ? "" : ": " + answer.message;
    return {"gets no run from " + server_of(url_) + ": it answered " +
                std::to_string(reply.status) + why,
            true};
  }
  run_id_ = answer.run_id;
  artifact_root_ = answer.artifact_uri;
  return {};
}

Uplink::Verdict MlflowServer::logged(const HttpReply& reply, const MlflowAnswer& answer) {
  if (reply.status == 404 && answer.error_code == "RESOURCE_DOES_NOT_EXIST") {
    return {"has lost its run at " + server_of(url_) + ": " + answer.message, true};
  }
  if (!reply.good() && batch_.size() > 1) {  // it refuses all for the sake of one
    careful_ = batch_.size();
    return {};
  }
  if (careful_ > 0) --careful_;
  outbox_.done(batch_);
  if (reply.good()) return {};
  ++refused_;
  return {"was refused an entry: " + answer.message, false};
}

std::string MlflowServer::left_over() const {
  std::string text;
  if (outbox_.unsent() > 0) {
    text = std::to_string(outbox_.unsent()) + " entries; they are kept in '" + outbox_.path() +
           "' and sent when the run is resumed";
  }
  if (refused_ > 0) {
    text += (text.empty() ? "" : "; ") + std::to_string(refused_) + " that the server refused";
  }
  return text;
}

}  // namespace

std::unique_ptr<MlflowSink> make_mlflow_server(const MlflowServerAddress& address,
                                               const std::string& folder, const MlflowRun& run,
                                               const TrackerContext& context) {
  return std::make_unique<MlflowServer>(address, folder, run, context);
}

}  // namespace accel
