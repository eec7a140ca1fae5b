#include "track/train_job_status.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/track/fake_transport.h"
#include "track/tracker_thread.h"

namespace accel::train_job_status_test {
namespace {

using Environment = std::map<std::string, std::string>;
using Values = std::vector<Measurement>;

constexpr auto kUrl = "https://trainer.kubeflow-system.svc:10443/apis/trainjobs/digits/status";

std::unique_ptr<Tracker> status_in(const Environment& environment) {
  return make_train_job_status([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_in(const Environment& environment) {
  try {
    status_in(environment);
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + " | " + error.hint();
  }
}

/// A status with a token in a file, and the thread that sends it to a server with these replies.
class TrainJobStatusTest : public testing::Test {
 protected:
  TrainJobStatusTest() {
    folder_.write("token", "eyJ\n");
    server_.answer = [this](const HttpRequest&) { return HttpReply{reply_, "", ""}; };
  }

  Environment environment() const {
    return {{"KUBEFLOW_TRAINER_SERVER_URL", kUrl},
            {"KUBEFLOW_TRAINER_SERVER_TOKEN", folder_.path("token")},
            {"KUBEFLOW_TRAINER_SERVER_CA_CERT", "/ca.crt"}};
  }

  std::unique_ptr<TrackerThread> thread() {
    NamedTrackers trackers;
    trackers.emplace_back(kTrainJobStatusName, status_in(environment()));
    return std::make_unique<TrackerThread>(
        std::move(trackers), [this](const std::string& line) { said_.push_back(line); },
        transport_to(server_));
  }

  /// The newest body, with its time as "T".
  std::string newest() const {
    const std::vector<HttpRequest> seen = server_.requests();
    if (seen.empty()) return {};
    static const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)");
    return std::regex_replace(seen.back().body, time, "T");
  }

  TempFolder folder_;
  FakeServer server_;
  int reply_ = 200;
  std::vector<std::string> said_;
};

TEST_F(TrainJobStatusTest, ProgressAndMetricsAreSentWithTheToken) {
  const auto to = thread();
  EXPECT_TRUE(to->reports_progress());
  to->log(5, Values{{"train/loss", 0.25}, {"bad", std::numeric_limits<double>::quiet_NaN()}});
  to->progress({0.456, 119.2});
  to->drain();
  to->finish(RunStatus::kInterrupted);
  const HttpRequest request = server_.requests().back();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.url, kUrl);
  EXPECT_EQ(request.ca_file, "/ca.crt");
  EXPECT_EQ(request.headers, (std::vector<std::string>{"Content-Type: application/json",
                                                       "Authorization: Bearer eyJ"}));
  EXPECT_EQ(newest(),
            R"({"trainerStatus":{"progressPercentage":45,"estimatedRemainingSeconds":120,)"
            R"("metrics":[{"name":"bad","value":"nan"},{"name":"train/loss","value":"0.25"}],)"
            R"("lastUpdatedTime":"T"}})");
  EXPECT_EQ(said_, std::vector<std::string>());
}

TEST_F(TrainJobStatusTest, UnknownProgressIsLeftOut) {
  const auto to = thread();
  to->log(5, Values{});
  to->finish(RunStatus::kFailed);
  EXPECT_EQ(newest(), R"({"trainerStatus":{"metrics":[],"lastUpdatedTime":"T"}})");
}

TEST_F(TrainJobStatusTest, AFinishedRunHasAHundredPercent) {
  const auto to = thread();
  to->progress({0.999, 7});
  to->finish(RunStatus::kFinished);
  EXPECT_EQ(newest(), R"({"trainerStatus":{"progressPercentage":100,"estimatedRemainingSeconds":0,)"
                      R"("metrics":[],"lastUpdatedTime":"T"}})");
}

TEST_F(TrainJobStatusTest, RequestsAreFiveSecondsApart) {
  const auto to = thread();
  for (int step = 0; step < 100; ++step) {
    to->progress({step / 100.0, 1});
    to->drain();
  }
  to->finish(RunStatus::kFinished);
  EXPECT_LE(server_.requests().size(), 2u);  // the first and the last
}

TEST_F(TrainJobStatusTest, LimitsOfTheResourceAreKept) {
  const auto to = thread();
  Values values;
  for (int i = 0; i < 300; ++i) values.emplace_back("m" + std::to_string(i), i);
  values.emplace_back(std::string(65, 'x'), 1);
  to->log(1, values);
  to->finish(RunStatus::kFinished);
  const std::string body = newest();
  size_t metrics = 0;
  for (size_t at = 0; (at = body.find("\"name\"", at)) != body.npos; ++at) ++metrics;
  EXPECT_EQ(metrics, 256u);
  EXPECT_EQ(body.find("xx"), body.npos);
}

TEST_F(TrainJobStatusTest, ARefusalEndsTheReports) {
  reply_ = 403;
  const auto to = thread();
  to->progress({0.5, 1});
  to->drain();
  to->finish(RunStatus::kFinished);
  EXPECT_EQ(said_, (std::vector<std::string>{
                       "the tracker 'kubeflow' stops sending: "
                       "https://trainer.kubeflow-system.svc:10443 answers with HTTP status 403"}));
}

TEST_F(TrainJobStatusTest, AMissingTokenEndsTheReports) {
  std::filesystem::remove(folder_.path("token"));
  const auto to = thread();
  to->progress({0.5, 1});
  to->finish(RunStatus::kFinished);
  EXPECT_EQ(said_, (std::vector<std::string>{"the tracker 'kubeflow' stops sending: cannot read "
                                             "the token in '" +
                                             folder_.path("token") + "'"}));
}

TEST_F(TrainJobStatusTest, OutsideATrainJobThereIsNone) {
  EXPECT_EQ(status_in({}), nullptr);
}

TEST_F(TrainJobStatusTest, IncompleteVariablesAreRefused) {
  Environment some = environment();
  some.erase("KUBEFLOW_TRAINER_SERVER_CA_CERT");
  EXPECT_EQ(error_in(some),
            "environment variable 'KUBEFLOW_TRAINER_SERVER_URL' is set, but not "
            "'KUBEFLOW_TRAINER_SERVER_CA_CERT' | set both, as Kubeflow Trainer does, or unset "
            "'KUBEFLOW_TRAINER_SERVER_URL'");
  some = environment();
  some["KUBEFLOW_TRAINER_SERVER_URL"] = "http://trainer:10443/apis/status";
  EXPECT_EQ(error_in(some),
            "environment variable 'KUBEFLOW_TRAINER_SERVER_URL' is 'http://trainer:10443', not an "
            "https URL | the token of the TrainJob must not be sent in plain text");
}

}  // namespace
}  // namespace accel::train_job_status_test
