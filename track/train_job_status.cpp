#include "track/train_job_status.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "track/remote_tracker.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kUrl = "KUBEFLOW_TRAINER_SERVER_URL";
constexpr auto kToken = "KUBEFLOW_TRAINER_SERVER_TOKEN";
constexpr auto kCertificate = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
constexpr std::chrono::seconds kPeriod{5};
// Limits of the resource.
constexpr size_t kMostMetrics = 256;
constexpr size_t kLongestName = 64;
constexpr double kMostSeconds = 2147483647;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return buffer;
}

/// Kubernetes replaces the file before the token expires.
std::string token_in(const std::string& path) {
  std::ifstream in(path);
  const std::string token{std::istreambuf_iterator<char>(in), {}};
  if (!in || token.empty()) throw IoError(text("cannot read the token in '{}'", path));
  return trimmed(token);
}

class TrainJobStatus final : public Tracker, public RemoteTracker, public ProgressTracker {
 public:
  TrainJobStatus(std::string url, std::string token, std::string certificate)
      : url_(std::move(url)), token_(std::move(token)), certificate_(std::move(certificate)) {}

  void config(const ConfigValues&) override {}
  void text(int64_t, const std::string&, const std::string&) override {}
  void histogram(int64_t, const std::string&, std::span<const float>) override {}
  void image(int64_t, const std::string&, const Picture&) override {}
  void flush(Flush) override {}
  std::map<std::string, std::string> ids() const override { return {}; }

  void log(int64_t, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) {
      const bool fits = metrics_.size() < kMostMetrics || metrics_.contains(name);
      if (fits && name.size() <= kLongestName) metrics_[name] = value;
    }
    changed_ = true;
  }

  void progress(const RunProgress& progress) override {
    progress_ = progress;
    changed_ = true;
  }

  void finish(RunStatus status) override {
    if (status == RunStatus::kFinished) progress_ = {.fraction = 1};
    changed_ = ended_ = true;
  }

  bool pending() const override { return changed_ && (ended_ || Clock::now() >= due_); }

  HttpRequest next() override {
    changed_ = false;
    due_ = Clock::now() + kPeriod;
    HttpRequest request;
    request.url = url_;
    request.headers = {"Content-Type: application/json",
                       "Authorization: Bearer " + token_in(token_)};
    request.ca_file = certificate_;
    request.body = body();
    return request;
  }

  /// Neither a wrong token nor a deleted TrainJob gets better.
  Verdict replied(const HttpReply& reply) override {
    if (reply.ok()) return {};
    return {.warning = accel::text("stops sending: {} answers with HTTP status {}",
                                   origin_of_url(url_), reply.status),
            .stop = true};
  }

  std::string unsent_summary() const override { return {}; }

 private:
  std::string body() const {
    std::string out = "{\"trainerStatus\":{";
    if (progress_.fraction >= 0) {
      const double percent = std::floor(std::clamp(progress_.fraction, 0.0, 1.0) * 100);
      out += "\"progressPercentage\":" + json_number(percent) + ",";
    }
    if (progress_.seconds_left > 0 || progress_.fraction == 1) {
      const double seconds = std::min(std::ceil(progress_.seconds_left), kMostSeconds);
      out += "\"estimatedRemainingSeconds\":" + json_number(seconds) + ",";
    }
    std::string metrics;
    for (const auto& [name, value] : metrics_) {
      if (!metrics.empty()) metrics += ",";
      const std::string number = std::isfinite(value) ? json_number(value) : std::to_string(value);
      metrics += "{\"name\":" + json_text(name) + ",\"value\":" + json_text(number) + "}";
    }
    return out + "\"metrics\":[" + metrics + "],\"lastUpdatedTime\":" + json_text(utc_now()) + "}}";
  }

  std::string url_, token_, certificate_;
  std::map<std::string, double> metrics_;
  RunProgress progress_;
  Clock::time_point due_ = {};
  bool changed_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<Tracker> make_train_job_status(const EnvironmentLookup& lookup) {
  const auto url = lookup(kUrl);
  if (!url) return nullptr;
  for (const char* name : {kToken, kCertificate}) {
    if (lookup(name)) continue;
    throw Error(ExitCode::kRecipe,
                text("environment variable '{}' is set, but not '{}'", kUrl, name),
                text("set both, as Kubeflow Trainer does, or unset '{}'", kUrl));
  }
  if (!url->starts_with("https://")) {
    throw Error(
        ExitCode::kRecipe,
        text("environment variable '{}' is '{}', not an https URL", kUrl, origin_of_url(*url)),
        "the token of the TrainJob must not be sent in plain text");
  }
  return std::make_unique<TrainJobStatus>(*url, *lookup(kToken), *lookup(kCertificate));
}

}  // namespace accel
