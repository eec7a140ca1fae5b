#include "track/tracker_thread.h"

#include <gtest/gtest.h>

#include <atomic>

#include "core/base/error.h"
#include "tests/unit/track/fake_transport.h"
#include "tests/unit/track/run_in.h"

namespace accel::tracker_thread_test {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;

/// Records its calls; a test can make it slow or let it fail.
class NoteTracker : public Tracker {
 public:
  explicit NoteTracker(Lines& notes) : notes_(notes) {}

  void config(const ConfigValues& values) override {
    note("config " + values.at(0).first + "=" + values.at(0).second);
  }
  void log(int64_t step, std::span<const Measurement> values) override {
    if (before_log) before_log();
    note("log " + std::to_string(step) + " " + values[0].first);
  }
  void text(int64_t, const std::string& tag, const std::string& text) override {
    note("text " + tag + " " + text);
  }
  void histogram(int64_t, const std::string& tag, std::span<const float> values) override {
    note("histogram " + tag + " of " + std::to_string(values.size()));
  }
  void image(int64_t, const std::string& tag, const Picture& picture) override {
    note("image " + tag + " of " + std::to_string(picture.pixels.size()));
  }
  void flush(Flush how) override {
    if (how == Flush::kDurable) note("durable");
  }
  void finish(RunStatus) override { note("finish"); }
  std::map<std::string, std::string> ids() const override {
    return {{"notes", std::to_string(notes_.size())}};
  }

  std::function<void()> before_log;

 private:
  void note(const std::string& line) { notes_.push_back(line); }
  Lines& notes_;
};

/// Sends each logged step to a server.
class SendingTracker final : public NoteTracker, public RemoteTracker {
 public:
  using NoteTracker::NoteTracker;
  void log(int64_t step, std::span<const Measurement>) override { steps_.push_back(step); }
  bool pending() const override { return !steps_.empty(); }
  HttpRequest next() override {
    return {"POST", "http://me:secret@far.example:8/log", {}, std::to_string(steps_.front())};
  }
  Verdict replied(const HttpReply& reply) override {
    steps_.pop_front();
    if (reply.status == 401) return {"was denied access", true};
    return {};
  }
  std::string unsent_summary() const override {
    return steps_.empty() ? "" : std::to_string(steps_.size()) + " steps";
  }

 private:
  std::deque<int64_t> steps_;
};

TrackerThread::Limits quick() {
  TrackerThread::Limits limits;
  limits.retry = {milliseconds(1), milliseconds(4)};
  limits.finish_timeout = milliseconds(100);
  return limits;
}

class TrackerThreadTest : public testing::Test {
 protected:
  template <class T>
  std::unique_ptr<TrackerThread> thread_of(std::unique_ptr<T> tracker,
                                           TrackerThread::Limits limits = quick()) {
    NamedTrackers trackers;
    trackers.emplace_back("note", std::move(tracker));
    return std::make_unique<TrackerThread>(
        std::move(trackers), [this](const std::string& line) { warnings_.push_back(line); },
        transport_to(server_), limits);
  }

  void log(TrackerThread& thread, int64_t step) {
    thread.log(step, std::vector<Measurement>{{"loss", 1.0}});
  }

  Lines bodies() const {
    Lines bodies;
    for (const HttpRequest& request : server_.requests()) bodies.push_back(request.body);
    return bodies;
  }

  FakeServer server_{[](const HttpRequest&) { return HttpReply{200, "", ""}; }, {}, {}};
  Lines notes_;
  Lines warnings_;
};

TEST_F(TrackerThreadTest, TrackersGetEverythingInOrderBeforeSettleReturns) {
  const auto thread = thread_of(std::make_unique<NoteTracker>(notes_));
  thread->config({{"lr", "0.1"}});
  log(*thread, 1);
  thread->text(1, "note", "hello");
  thread->histogram(2, "weights", std::vector<float>{1, 2, 3});
  thread->image(2, "sample", {1, 2, 1, {0, 255}});
  thread->drain();
  EXPECT_EQ(notes_, (Lines{"config lr=0.1", "log 1 loss", "text note hello",
                           "histogram weights of 3", "image sample of 2", "durable"}));
  EXPECT_EQ(thread->ids(), (TrackerIds{{"note", {{"notes", "6"}}}}));
  thread->finish(RunStatus::kFinished);
  EXPECT_EQ(notes_.back(), "finish");
  EXPECT_EQ(warnings_, Lines{});
}

TEST_F(TrackerThreadTest, AFailingTrackerIsWarnedOfOnceAndFedOn) {
  auto tracker = std::make_unique<NoteTracker>(notes_);
  int calls = 0;
  tracker->before_log = [&] {
    if (++calls < 3) throw IoError("cannot write 'x': No space left on device");
  };
  const auto thread = thread_of(std::move(tracker));
  for (int step = 1; step <= 3; ++step) log(*thread, step);
  thread->drain();
  EXPECT_EQ(warnings_, (Lines{"the tracker 'note' failed: cannot write 'x': No space left on "
                              "device; training continues"}));
  EXPECT_EQ(notes_, (Lines{"log 3 loss", "durable"}));
  thread->finish(RunStatus::kFinished);
  EXPECT_EQ(warnings_.back(), "the tracker 'note' failed 2 times; metrics.jsonl has all metrics");
}

TEST_F(TrackerThreadTest, AFullQueueWaitsForTheFilesAndLosesNothing) {
  TrackerThread::Limits limits = quick();
  limits.queued_bytes = 1000;  // three or four steps
  auto tracker = std::make_unique<NoteTracker>(notes_);
  std::atomic<int> taken = 0;
  tracker->before_log = [&] {
    std::this_thread::sleep_for(milliseconds(2));
    ++taken;
  };
  const auto thread = thread_of(std::move(tracker), limits);
  for (int step = 1; step <= 20; ++step) {
    log(*thread, step);
    EXPECT_LE(step - taken, 8) << "more is queued than may be";
  }
  thread->finish(RunStatus::kFinished);
  ASSERT_EQ(notes_.size(), 21u);
  EXPECT_EQ(notes_[19], "log 20 loss");
  EXPECT_EQ(warnings_, (Lines{"training waits for the trackers: the disk is slower than "
                              "logging"}));
}

TEST_F(TrackerThreadTest, AnEventLargerThanTheQueueIsTakenAlone) {
  TrackerThread::Limits limits = quick();
  limits.queued_bytes = 10;
  const auto thread = thread_of(std::make_unique<NoteTracker>(notes_), limits);
  thread->histogram(1, "weights", std::vector<float>(1000));
  thread->drain();
  EXPECT_EQ(notes_.front(), "histogram weights of 1000");
}

TEST_F(TrackerThreadTest, NoTrackersNeedNoThread) {
  TrackerThread thread({}, [](const std::string&) {});
  log(thread, 1);
  thread.drain();
  thread.finish(RunStatus::kFinished);
  EXPECT_EQ(thread.ids(), TrackerIds{});
}

TEST_F(TrackerThreadTest, WhatIsPendingIsSentBeforeTheEnd) {
  const auto thread = thread_of(std::make_unique<SendingTracker>(notes_));
  for (int step = 1; step <= 3; ++step) log(*thread, step);
  thread->finish(RunStatus::kFinished);
  EXPECT_EQ(bodies(), (Lines{"1", "2", "3"}));
  EXPECT_EQ(warnings_, Lines{});
}

TEST_F(TrackerThreadTest, AServerThatComesBackGetsEverything) {
  std::atomic<int> asked = 0;
  server_.answer = [&](const HttpRequest&) {
    const int number = ++asked;
    if (number == 1) return HttpReply{0, "", "Couldn't connect to server"};
    if (number == 2) return HttpReply{503, "busy", ""};
    return HttpReply{200, "", ""};
  };
  TrackerThread::Limits limits = quick();
  limits.finish_timeout = milliseconds(5000);
  const auto thread = thread_of(std::make_unique<SendingTracker>(notes_), limits);
  log(*thread, 1);
  log(*thread, 2);
  thread->finish(RunStatus::kFinished);
  EXPECT_EQ(bodies(), (Lines{"1", "1", "1", "2"}));
  EXPECT_EQ(warnings_, (Lines{"the tracker 'note' cannot send to http://far.example:8: Couldn't "
                              "connect to server; retrying until the run ends",
                              "the tracker 'note' cannot send to http://far.example:8: HTTP "
                              "status 503; retrying until the run ends"}));
}

TEST_F(TrackerThreadTest, ADeadServerIsWarnedOfOnceAndItsRestIsCounted) {
  server_.answer = [](const HttpRequest&) { return HttpReply{0, "", "Connection refused"}; };
  const auto thread = thread_of(std::make_unique<SendingTracker>(notes_));
  for (int step = 1; step <= 50; ++step) {
    log(*thread, step);
    std::this_thread::sleep_for(milliseconds(1));
  }
  const auto before = std::chrono::steady_clock::now();
  thread->finish(RunStatus::kFinished);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  EXPECT_EQ(warnings_, (Lines{"the tracker 'note' cannot send to http://far.example:8: "
                              "Connection refused; retrying until the run ends",
                              "the tracker 'note' has not sent 50 steps"}));
}

TEST_F(TrackerThreadTest, AServerKnownToBeAwayDelaysTheEndByOneTryOnly) {
  server_.answer = [](const HttpRequest&) { return HttpReply{0, "", "Connection refused"}; };
  TrackerThread::Limits limits = quick();
  limits.retry.most = limits.finish_timeout = milliseconds(60000);
  const auto thread = thread_of(std::make_unique<SendingTracker>(notes_), limits);
  log(*thread, 1);
  while (bodies().size() < 5) std::this_thread::sleep_for(milliseconds(1));
  const size_t tries = bodies().size();
  thread->finish(RunStatus::kFinished);
  EXPECT_LE(bodies().size(), tries + 2);
}

TEST_F(TrackerThreadTest, ASilentServerHoldsUpNeitherStepsNorFilesNorTheEnd) {
  server_.answer = [](const HttpRequest&) { return std::nullopt; };
  const auto thread = thread_of(std::make_unique<SendingTracker>(notes_));
  log(*thread, 1);
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    thread->text(1, "note", "x");
    thread->drain();
  }
  EXPECT_EQ(notes_.size(), 40u);
  thread->finish(RunStatus::kFinished);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  EXPECT_EQ(warnings_, (Lines{"the tracker 'note' has not sent 1 steps"}));
}

TEST_F(TrackerThreadTest, ARefusalEndsTheSending) {
  server_.answer = [](const HttpRequest&) { return HttpReply{401, "", ""}; };
  const auto thread = thread_of(std::make_unique<SendingTracker>(notes_));
  for (int step = 1; step <= 3; ++step) log(*thread, step);
  thread->finish(RunStatus::kFinished);
  EXPECT_EQ(bodies(), (Lines{"1"}));
  EXPECT_EQ(warnings_, (Lines{"the tracker 'note' was denied access",
                              "the tracker 'note' has not sent 2 steps"}));
}

TEST_F(TrackerThreadTest, AThreadThatIsDroppedWritesWhatItHas) {
  thread_of(std::make_unique<NoteTracker>(notes_))->text(1, "note", "last");
  EXPECT_EQ(notes_, (Lines{"text note last"}));
}

TEST(AimTest, TheRefusalSaysWhyAndWhatElse) {
  EXPECT_EQ(complaint<Tracker>("aim", run_in("")),
            "recipe.yaml:1:1: error: there is no tracker 'aim': Aim's store can be written by its "
            "own Python package only\n"
            "    aim\n"
            "    ^\n"
            "  hint: use 'tensorboard': 'aim convert tensorboard' imports it where tensorflow is "
            "installed\n");
}

}  // namespace
}  // namespace accel::tracker_thread_test
