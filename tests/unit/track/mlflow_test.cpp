#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/track/fake_mlflow.h"
#include "tests/unit/track/resumed_run.h"
#include "track/flush.h"
#include "track/mlflow_sink.h"
#include "track/tracker_thread.h"

namespace accel::mlflow_test {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using std::chrono::milliseconds;

class MlflowServerTest : public testing::Test {
 protected:
  MlflowServerTest() {
    server_.answer = [this](const HttpRequest& request) -> std::optional<HttpReply> {
      if (down_) return HttpReply{0, "", "Couldn't connect to server"};
      return mlflow_.answer(request);
    };
  }

  std::unique_ptr<TrackerThread> thread(int64_t step = 0, const TrackerNames& ids = {}) {
    NamedTrackers trackers;
    trackers.emplace_back("mlflow", build<Tracker>("type: mlflow\nuri: http://far:5000/",
                                                   resumed_context(folder_.path(), step, ids)));
    TrackerThread::Limits limits;
    limits.retry = {milliseconds(1), milliseconds(4)};
    limits.finish_timeout = goodbye_;
    return std::make_unique<TrackerThread>(
        std::move(trackers), [this](const std::string& line) { warnings_.push_back(line); },
        transport_to(server_), limits);
  }

  static void log(TrackerThread& thread, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      thread.log(step, Values{{"loss", 1.0 / static_cast<double>(step)}});
    }
  }

  using Values = std::vector<Measurement>;

  /// Method and the end of the URL of each request.
  Lines calls() const {
    Lines calls;
    for (const HttpRequest& request : server_.requests()) {
      const size_t api = request.url.find("/mlflow");
      calls.push_back(request.method + ' ' + request.url.substr(api));
    }
    return calls;
  }

  TempFolder folder_;
  FakeMlflow mlflow_;
  std::atomic<bool> down_ = false;
  milliseconds goodbye_{20000};
  FakeServer server_;
  Lines warnings_;
};

TEST_F(MlflowServerTest, ARunIsMadeFilledAndEnded) {
  const auto run = thread();
  run->config({{"optimizer.lr", "0.1"}});
  run->log(1, Values{{"train/loss", 0.5}, {"odd=name", 2}});
  run->text(1, "note", "hello");
  run->image(2, "sample", {1, 1, 1, {7}});
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(calls(), (Lines{"GET /mlflow/experiments/get-by-name?experiment_name=accel-run",
                            "POST /mlflow/experiments/create",
                            "GET /mlflow/experiments/get-by-name?experiment_name=accel-run",
                            "POST /mlflow/runs/search", "POST /mlflow/runs/create",
                            "POST /mlflow/runs/log-batch", "POST /mlflow/runs/log-batch",
                            "POST /mlflow/runs/log-batch",
                            "PUT /mlflow-artifacts/artifacts/7/cafe/artifacts/images/sample_2.png",
                            "POST /mlflow/runs/update"}));
  EXPECT_EQ(mlflow_.params, (std::map<std::string, std::string>{{"optimizer.lr", "0.1"}}));
  EXPECT_EQ(mlflow_.tags["note"], "hello");
  EXPECT_EQ(mlflow_.metrics["train/loss"].begin()->value, 0.5);
  EXPECT_EQ(mlflow_.metrics[mlflow_key("odd=name")].begin()->step, 1);
  EXPECT_EQ(mlflow_.artifacts.size(), 1u);
  EXPECT_EQ(mlflow_.status, "FINISHED");
  EXPECT_EQ(warnings_, Lines{});
}

TEST_F(MlflowServerTest, RequestsKeepMlflowsLimits) {
  down_ = true;
  const auto run = thread();
  log(*run, 1, 2500);
  run->drain();
  down_ = false;
  run->finish(RunStatus::kInterrupted);
  EXPECT_EQ(mlflow_.metrics["loss"].size(), 2500u);
  Lines sizes;
  for (const HttpRequest& request : server_.requests()) {
    const auto body = nlohmann::json::parse(request.body, nullptr, false);
    if (body.contains("metrics")) sizes.push_back(std::to_string(body["metrics"].size()));
  }
  EXPECT_EQ(sizes, (Lines{"1000", "1000", "500"}));
  EXPECT_EQ(mlflow_.status, "");  // still to end
}

TEST_F(MlflowServerTest, NumbersThatAreNotFiniteAreTexts) {
  const auto run = thread();
  run->log(1, Values{{"a", std::nan("")}, {"b", -INFINITY}});
  run->finish(RunStatus::kFinished);
  const std::vector<HttpRequest> seen = server_.requests();
  const std::string body = seen.at(seen.size() - 2).body;
  EXPECT_NE(body.find("\"value\":\"NaN\""), std::string::npos) << body;
  EXPECT_NE(body.find("\"value\":\"-Infinity\""), std::string::npos) << body;
}

std::vector<FlushedOutbox> flush(const TempFolder& folder, FakeServer& server, Lines& warnings) {
  const auto warn = [&](const std::string& line) { warnings.push_back(line); };
  return flush_outboxes(
      folder.path(),
      {transport_to(server), {milliseconds(1), milliseconds(4), "now"}, milliseconds(200), warn});
}

TEST_F(MlflowServerTest, AFlushSendsWhatAnEndedRunKept) {
  down_ = true;
  goodbye_ = milliseconds(20);
  {
    const auto run = thread();
    run->config({{"optimizer.lr", "0.1"}});
    log(*run, 1, 3);
    run->finish(RunStatus::kFinished);
  }
  EXPECT_EQ(mlflow_.runs, 0);
  Lines warnings;
  const auto unsent = flush(folder_, server_, warnings);  // still down
  ASSERT_EQ(unsent.size(), 1u);
  EXPECT_FALSE(unsent[0].was_empty);
  EXPECT_TRUE(unsent[0].unsent.starts_with("5 entries")) << unsent[0].unsent;
  EXPECT_EQ(warnings,
            (Lines{"the tracker 'mlflow' cannot send to http://far:5000: Couldn't connect "
                   "to server; retrying until now"}));
  down_ = false;
  const auto sent = flush(folder_, server_, warnings);
  EXPECT_EQ(sent.at(0).folder, folder_.path("mlflow"));
  EXPECT_EQ(sent[0].unsent, "");
  EXPECT_EQ(mlflow_.runs, 1);
  EXPECT_EQ(mlflow_.metrics["loss"].size(), 3u);
  EXPECT_EQ(mlflow_.params["optimizer.lr"], "0.1");
  EXPECT_EQ(mlflow_.status, "FINISHED");
  const size_t requests = server_.requests().size();
  EXPECT_TRUE(flush(folder_, server_, warnings).at(0).was_empty);
  EXPECT_EQ(server_.requests().size(), requests);
}

TEST_F(MlflowServerTest, AFlushLeavesARunningRunAndADamagedIdentityAlone) {
  Lines warnings;
  const auto complaint_of_flush = [&]() -> std::string {
    try {
      flush(folder_, server_, warnings);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  auto run = thread();
  const std::string box = folder_.path("mlflow");
  EXPECT_EQ(complaint_of_flush(), text("'{}' is in use by a run or by another flush", box));
  run->finish(RunStatus::kFinished);
  run.reset();
  std::ofstream(box + "/run.json") << "{}";
  EXPECT_TRUE(complaint_of_flush().starts_with(text("'{}' is damaged: ", box + "/run.json")));
  fs::remove(box + "/run.json");
  EXPECT_TRUE(flush(folder_, server_, warnings).empty());
}

TEST_F(MlflowServerTest, ACrashPastTheCheckpointDoublesAndLosesNothing) {
  TrackerNames ids;
  {
    const auto run = thread();
    run->config({{"optimizer.lr", "0.1"}});
    log(*run, 1, 10);
    run->drain();
    ids = run->ids().at(0).second;
    log(*run, 11, 15);
    run->finish(RunStatus::kInterrupted);  // all of it was sent
  }
  EXPECT_EQ(mlflow_.metrics["loss"].size(), 15u);
  const auto run = thread(10, ids);
  run->config({{"optimizer.lr", "0.2"}});
  log(*run, 11, 20);
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(mlflow_.runs, 1);
  EXPECT_EQ(mlflow_.metrics["loss"].size(), 20u);
  EXPECT_EQ(mlflow_.params["optimizer.lr"], "0.1");
  EXPECT_EQ(mlflow_.tags["changed.optimizer.lr"], "0.2");
  EXPECT_EQ(warnings_, Lines{});
}

TEST_F(MlflowServerTest, WhatWasOnItsWayIsSentAgainAsItWas) {
  TrackerNames ids;
  {
    bool cut = false;
    server_.answer = [&](const HttpRequest& request) -> std::optional<HttpReply> {
      const HttpReply reply = mlflow_.answer(request);  // the server has it, we never hear of it
      cut = cut || request.url.ends_with("log-batch");
      return cut ? std::nullopt : std::optional(reply);
    };
    const auto run = thread();
    log(*run, 1, 5);
    run->drain();
    ids = run->ids().at(0).second;
    while (calls().empty() || !calls().back().ends_with("log-batch")) std::this_thread::yield();
  }
  EXPECT_GT(mlflow_.metrics["loss"].size(), 0u);
  server_.answer = [&](const HttpRequest& request) { return mlflow_.answer(request); };
  std::this_thread::sleep_for(milliseconds(3));  // so that times would differ
  const auto run = thread(1, ids);               // a checkpoint at step 1
  log(*run, 2, 8);
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(mlflow_.runs, 1);
  EXPECT_EQ(mlflow_.metrics["loss"].size(), 8u);
}

TEST_F(MlflowServerTest, AServerThatWasAwayForAWholeLifeGetsAllLater) {
  down_ = true;
  goodbye_ = milliseconds(50);
  TrackerNames ids;
  {
    const auto run = thread();
    log(*run, 1, 10);
    run->drain();
    ids = run->ids().at(0).second;
    run->finish(RunStatus::kFinished);
  }
  EXPECT_EQ(warnings_,
            (Lines{"the tracker 'mlflow' cannot send to http://far:5000: Couldn't "
                   "connect to server; retrying until the run ends",
                   text("the tracker 'mlflow' has not sent 11 entries; they are kept in "
                        "'{}' and sent when the run is resumed, or by 'accel-run track flush RUN'",
                        folder_.path("mlflow/outbox.jsonl"))}));
  down_ = false;
  goodbye_ = milliseconds(20000);
  const auto run = thread(10, ids);
  log(*run, 11, 12);
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(mlflow_.metrics["loss"].size(), 12u);
  EXPECT_EQ(mlflow_.status, "FINISHED");
}

TEST_F(MlflowServerTest, AnOutboxThatLostEntriesIsNotSent) {
  down_ = true;
  const auto run = thread();
  log(*run, 1, 3);
  run->drain();
  const std::string outbox = folder_.path("mlflow/outbox.jsonl");
  fs::resize_file(outbox, 0);
  down_ = false;
  run->finish(RunStatus::kInterrupted);
  const std::string wanted =
      text("the tracker 'mlflow' stops sending: '{}' lacks unsent entries", outbox);
  EXPECT_EQ(std::count(warnings_.begin(), warnings_.end(), wanted), 1) << warnings_.at(0);
  EXPECT_EQ(mlflow_.metrics.size(), 0u);
}

TEST_F(MlflowServerTest, ARunThatTheServerDeletedIsNotSent) {
  server_.answer = [&](const HttpRequest& request) {
    if (!request.url.ends_with("log-batch")) return mlflow_.answer(request);
    return HttpReply{
        404, R"({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Run not found"})", ""};
  };
  const auto run = thread();
  log(*run, 1, 3);
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(warnings_.at(0),
            "the tracker 'mlflow' cannot find its run on http://far:5000: Run not found");
}

TEST_F(MlflowServerTest, TwoTrackersKeepWhatTheySendApart) {
  down_ = true;
  goodbye_ = milliseconds(50);
  const auto entries = [this](const std::string& file) {
    std::ifstream in(folder_.path(file));
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  };
  for (int life = 0; life < 2; ++life) {
    const auto first = thread(), second = thread();
    log(*first, 1, 3);
    log(*second, 1, 5);
    first->finish(RunStatus::kInterrupted);
    second->finish(RunStatus::kInterrupted);
    EXPECT_EQ(entries("mlflow/outbox.jsonl"), 3);
    EXPECT_EQ(entries("mlflow-2/outbox.jsonl"), 5);
  }
  EXPECT_FALSE(fs::exists(folder_.path("mlflow-3")));
}

TEST_F(MlflowServerTest, OneRefusedEntryTakesNoOtherAlong) {
  mlflow_.refuse = "bad";
  const auto run = thread();
  run->log(1, Values{{"a", 1}, {"bad", 2}, {"c", 3}});
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(mlflow_.metrics.size(), 2u);
  EXPECT_EQ(warnings_, (Lines{"the tracker 'mlflow' had an entry rejected: not that",
                              "the tracker 'mlflow' has not sent 1 rejected entries"}));
}

TEST_F(MlflowServerTest, AServerThatLetsNobodyInIsNotAskedAgain) {
  server_.answer = [](const HttpRequest&) { return HttpReply{401, "", ""}; };
  const auto run = thread();
  log(*run, 1, 3);
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(calls().size(), 1u);
  EXPECT_EQ(warnings_.at(0),
            "the tracker 'mlflow' was denied access by http://far:5000: HTTP status 401; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN");
}

TEST_F(MlflowServerTest, AnAnswerOfAnotherKindOfServerIsNamed) {
  const std::string deep(1 << 20, '[');
  for (const std::string& body :
       {std::string("<html>"), std::string("{\"experiment\": []}"), std::string(), deep}) {
    server_.answer = [&](const HttpRequest&) { return HttpReply{200, body, ""}; };
    warnings_.clear();
    const auto run = thread();
    log(*run, 1, 1);
    run->finish(RunStatus::kFinished);
    EXPECT_TRUE(warnings_.at(0).starts_with(
        "the tracker 'mlflow' cannot open a run on http://far:5000: HTTP status 200"))
        << warnings_.at(0);
  }
}

TEST_F(MlflowServerTest, CredentialsComeFromTheEnvironmentOnly) {
  ::setenv("MLFLOW_TRACKING_USERNAME", "me", 1);
  ::setenv("MLFLOW_TRACKING_PASSWORD", "pass", 1);
  const auto run = thread();
  ::unsetenv("MLFLOW_TRACKING_USERNAME");
  ::unsetenv("MLFLOW_TRACKING_PASSWORD");
  log(*run, 1, 1);
  run->finish(RunStatus::kFinished);
  EXPECT_EQ(server_.requests().at(0).headers.at(1), "Authorization: Basic bWU6cGFzcw==");
  EXPECT_EQ(complaint<Tracker>("type: mlflow\nuri: http://me:pass@far", run_in("")),
            "recipe.yaml:2:6: error: 'uri' must be the http:// or https:// address of a server, "
            "without a password, not 'http://***@far'\n");
}

class MlflowFilesTest : public testing::Test {
 protected:
  std::unique_ptr<Tracker> tracker(int64_t step = 0, const TrackerNames& ids = {}) {
    return build<Tracker>("type: mlflow\nexperiment: it's",
                          resumed_context(folder_.path(), step, ids));
  }
  /// The folder of the only run.
  std::string run_folder(const TrackerNames& ids) const {
    for (const auto& experiment : fs::directory_iterator(folder_.path("mlruns"))) {
      const fs::path run = experiment.path() / ids.at("run_id");
      if (fs::exists(run)) return run.string();
    }
    return "";
  }
  std::string content(const TrackerNames& ids, const std::string& path) const {
    return file_content(run_folder(ids) + '/' + path);
  }

  TempFolder folder_;
};

TEST_F(MlflowFilesTest, EveryKindOfValueHasItsFile) {
  const auto mlflow = tracker();
  mlflow->config({{"optimizer.lr", "0.1"}});
  mlflow->log(3, std::vector<Measurement>{{"train/loss", 0.5}, {"bad", std::nan("")}});
  mlflow->text(3, "note", "hello");
  mlflow->image(3, "sample", {1, 1, 1, {7}});
  mlflow->finish(RunStatus::kFailed);
  const TrackerNames ids = mlflow->ids();
  EXPECT_EQ(content(ids, "params/optimizer.lr"), "0.1");
  EXPECT_TRUE(content(ids, "metrics/train/loss").ends_with(" 0.5 3\n"));
  EXPECT_TRUE(content(ids, "metrics/bad").ends_with(" nan 3\n"));
  EXPECT_EQ(content(ids, "tags/note"), "hello");
  EXPECT_EQ(content(ids, "tags/mlflow.source.git.branch"), "main");
  EXPECT_TRUE(content(ids, "artifacts/images/sample_3.png").starts_with("\x89PNG"));
  EXPECT_NE(content(ids, "meta.yaml").find("\nstatus: 4\n"), std::string::npos);
  EXPECT_NE(content(ids, "../meta.yaml").find("\nname: 'it''s'\n"), std::string::npos);
}

TEST_F(MlflowFilesTest, RunsShareAnExperimentAndResumeDropsLaterLines) {
  tracker();
  TrackerNames ids;
  {
    const auto mlflow = tracker();
    ids = mlflow->ids();
    for (const int64_t step : {1, 2, 3}) {
      mlflow->log(step, std::vector<Measurement>{{"loss", 0.5}});
    }
    mlflow->finish(RunStatus::kFinished);
  }
  const auto mlflow = tracker(2, ids);
  mlflow->log(3, std::vector<Measurement>{{"loss", 0.25}});
  mlflow->flush(Flush::kReadable);
  EXPECT_EQ(mlflow->ids(), ids);
  const std::string lines = content(ids, "metrics/loss");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_TRUE(lines.ends_with(" 0.25 3\n"));
  EXPECT_NE(content(ids, "meta.yaml").find("\nstatus: 1\n"), std::string::npos);
  size_t experiments = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path("mlruns"))) {
    experiments += entry.path().filename() != ".trash";
  }
  EXPECT_EQ(experiments, 1u);
}

TEST_F(MlflowFilesTest, ADraftOfAKilledProcessIsNoMetric) {
  const TrackerNames ids = tracker()->ids();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::string metrics;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path("mlruns"))) {
    if (entry.path().filename() == "metrics") metrics = entry.path().string();
  }
  const std::string draft = metrics + "/loss." + std::to_string(child) + ".new";
  write_file_with_folder(draft, "0 0.5 1\n");
  tracker(2, ids);
  EXPECT_FALSE(fs::exists(draft));
}

/// A client that lists the run while it is resumed must find no file that disappears.
TEST_F(MlflowFilesTest, DraftsAreOutsideTheRun) {
  TrackerNames ids;
  {
    const auto mlflow = tracker();
    ids = mlflow->ids();
    for (int64_t step = 1; step <= 3; ++step) {
      mlflow->log(step, std::vector<Measurement>{{"loss", 0.5}});
    }
    mlflow->flush(Flush::kReadable);
  }
  const int watcher = ::inotify_init1(IN_NONBLOCK);
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path("mlruns"))) {
    const std::string name = entry.path().filename();
    if (name == "metrics" || name == "params" || name == "tags") {
      ASSERT_GE(::inotify_add_watch(watcher, entry.path().c_str(), IN_CREATE | IN_MOVED_TO), 0);
    }
  }
  tracker(2, ids);
  alignas(inotify_event) std::array<char, 1 << 16> buffer;
  const ssize_t size = ::read(watcher, buffer.data(), buffer.size());
  ::close(watcher);
  std::set<std::string> names;
  for (ssize_t at = 0; at < size;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
    names.insert(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_TRUE(names.contains("loss"));
  EXPECT_TRUE(names.contains("mlflow.user"));
  for (const std::string& name : names) EXPECT_FALSE(name.ends_with(".new")) << name;
}

TEST_F(MlflowFilesTest, ManyMetricsNeedFewOpenFiles) {
  const auto mlflow = tracker();
  std::vector<Measurement> values;
  for (int i = 0; i < 600; ++i) values.emplace_back("m" + std::to_string(i), i);
  mlflow->log(1, values);
  mlflow->log(2, values);
  mlflow->flush(Flush::kReadable);
  const std::string lines = content(mlflow->ids(), "metrics/m0");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST_F(MlflowFilesTest, TheEnvironmentSaysWhereWhenTheRecipeDoesNot) {
  ::setenv("MLFLOW_TRACKING_URI", ("file://" + folder_.path("shared")).c_str(), 1);
  tracker();
  EXPECT_TRUE(fs::exists(folder_.path("shared/.trash")));
  ::setenv("MLFLOW_TRACKING_URI", "http://far:5000", 1);
  const auto sending = tracker();
  EXPECT_TRUE(dynamic_cast<RemoteTracker&>(*sending).is_online());
  ::setenv("MLFLOW_TRACKING_URI", "sqlite:///x.db", 1);
  try {
    tracker();
    FAIL() << "a database was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "MLFLOW_TRACKING_URI is 'sqlite:///x.db', which the tracker 'mlflow' does "
                 "not support");
  }
  ::setenv("MLFLOW_TRACKING_URI", "http://me:hush@far:5000/x", 1);
  EXPECT_EQ(complaint<Tracker>("mlflow", run_in(folder_.path())),
            "MLFLOW_TRACKING_URI is 'http://far:5000/x' with a user name or password");
  ::unsetenv("MLFLOW_TRACKING_URI");
}

TEST_F(MlflowFilesTest, AFolderThatCannotBeMadeIsAnIoError) {
  folder_.write("mlruns", "");
  EXPECT_EQ(complaint<Tracker>("mlflow", run_in(folder_.path())),
            "cannot make the folder '" + folder_.path("mlruns") + "': Not a directory");
}

TEST_F(MlflowFilesTest, AFolderThatCannotBeReadIsAnIoError) {
  TrackerContext context = run_in(folder_.path());
  context.ids = build<Tracker>("mlflow", context)->ids();
  context.first_step = 1;
  std::filesystem::path run;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("mlruns"))) {
    if (entry.path().filename() == context.ids["run_id"]) run = entry.path();
  }
  std::filesystem::remove_all(run);
  std::filesystem::create_symlink(run, run);
  EXPECT_EQ(
      complaint<Tracker>("mlflow", context),
      "cannot use the folder '" + folder_.path("mlruns") + "': Too many levels of symbolic links");
}

TEST(MlflowKeyTest, NamesBecomeWhatMlflowTakes) {
  EXPECT_EQ(mlflow_key("train/loss"), "train/loss");
  EXPECT_EQ(mlflow_key("eval/f1_\u65e5\u672c \u00e9"), "eval/f1_\u65e5\u672c \u00e9");
  EXPECT_TRUE(mlflow_key("../a=b").starts_with("__/a_b_"));
  EXPECT_NE(mlflow_key("a=b"), mlflow_key("a,b"));
  EXPECT_EQ(mlflow_key("a=b"), mlflow_key("a=b"));
  const std::string end(150, 'y');
  const std::string key = mlflow_key(std::string(150, 'x') + "/" + end);
  EXPECT_EQ(key.size(), 250u);
  EXPECT_NE(key, mlflow_key(std::string(150, 'x') + "/" + end + "z"));
}

TEST(MlflowOptionsTest, AServerAndAFolderExcludeEachOther) {
  EXPECT_EQ(complaint<Tracker>("type: mlflow\nuri: http://far\ndir: x", run_in("")),
            "recipe.yaml:3:1: error: 'uri' and 'dir' exclude each other\n"
            "    dir: x\n"
            "    ^\n"
            "  hint: runs go to a server or into a folder\n");
}

}  // namespace
}  // namespace accel::mlflow_test
