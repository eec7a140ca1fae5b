#include "runner/report/top_frame.h"

#include <gtest/gtest.h>

#include "core/base/utf8.h"
#include "tests/unit/runner/report/recorded_run.h"

namespace accel::top_frame_test {
namespace {

constexpr std::time_t kNoon = 1769860800;  // 2026-01-31T12:00:00Z

std::string text_of(const std::vector<FrameLine>& lines) {
  std::string out;
  for (const FrameLine& line : lines) out += line.text + "\n";
  return out;
}

size_t columns(const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += character_length(text, at)) {
    EXPECT_GT(character_length(text, at), 0u);
    count += display_width(std::string_view(text).substr(at, character_length(text, at)));
  }
  return count;
}

Curve ramp(int count) {
  Curve curve;
  for (int i = 0; i < count; ++i) curve.add(i + 1, i);
  return curve;
}

RunSummary alive() {
  RunSummary run;
  run.name = "digits";
  run.pulse = RunPulse::kAlive;
  run.holder = "process 12 on host 'a'";
  run.step = 250;
  run.loss = ramp(250);
  run.plan = {{"total_steps", 1000}, {"ranks", 2}, {"save_every_steps", 100}};
  run.last_seconds = {{"data", 1}, {"forward", 3}};
  run.last_interval = 8;
  run.events = {{0, "start", "at step 0", "2026-01-31T11:00:00Z"}};
  run.saves = 2;
  run.last_save = {200, "save", "checkpoint_200 in 5 ms", "2026-01-31T11:50:00Z"};
  return run;
}

TEST(TopFrameTest, DamagedLinesOfTheRecordAreCounted) {
  RunSummary run = alive();
  run.damaged_lines = 1;
  EXPECT_NE(text_of(top_frame(run, {80, 24}, kNoon, 0))
                .find("\n1 damaged line of the record is left out\n"),
            std::string::npos);
  run.damaged_lines = 2000;
  EXPECT_NE(text_of(top_frame(run, {80, 24}, kNoon, 0))
                .find("\n2,000 damaged lines of the record are left out\n"),
            std::string::npos);
}

TEST(TopFrameTest, RunningRunTellsWhereItIsAndWhatIsNext) {
  EXPECT_EQ(text_of(top_frame(alive(), {80, 24}, kNoon, 0)),
            "digits  running  process 12 on host 'a'\n"
            "step 250 of 1,000  ███████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  25 %  6:15 left\n"
            "epoch          0          ranks 2  2 steps/s\n"
            "input wait     25 %       forward 75 %\n"
            "checkpoint     next at step 300, in about 0:25; last checkpoint_200\n"
            "loss           249        ▁▁▁▁▂▂▂▂▃▃▃▄▄▄▄▅▅▅▅▆▆▆▇▇▇▇████  0 to 249\n"
            "start          at step 0\n");
}

TEST(TopFrameTest, SavesByTimeAreCountedFromTheLastOne) {
  RunSummary run = alive();
  run.plan["save_every_steps"] = 0;
  run.plan["save_every_seconds"] = 1800;
  const std::string text = text_of(top_frame(run, {120, 24}, kNoon, 0));
  EXPECT_NE(text.find("next in about 20:00; last checkpoint_200\n"), text.npos) << text;
}

TEST(TopFrameTest, EndedRunPromisesNothing) {
  RunSummary run = alive();
  run.pulse = RunPulse::kNobody;
  run.events.push_back({250, "failed", "the disk is \x1b[31mfull", "2026-01-31T11:55:00Z"});
  const std::vector<FrameLine> lines = top_frame(run, {80, 24}, kNoon, 300);
  const std::string text = text_of(lines);
  EXPECT_EQ(lines.front().text, "digits  failed");
  EXPECT_EQ(lines.front().look, FrameLine::Look::kBad);
  EXPECT_EQ(lines.back().text, "failed         at step 250: the disk is \\x1b[31mfull");
  EXPECT_EQ(text.find("left"), text.npos);
  EXPECT_EQ(text.find("next"), text.npos);
}

TEST(TopFrameTest, SilenceOfARunningRunIsTold) {
  const std::vector<FrameLine> lines = top_frame(alive(), {80, 24}, kNoon, 300);
  EXPECT_EQ(lines.front().text, "digits  running  process 12 on host 'a'  no news for 5:00");
}

TEST(TopFrameTest, APausedRunSaysSo) {
  RunSummary run = alive();
  const auto event = [&](const char* name) {
    run.events.push_back({250, name, "by ctl", "2026-01-31T11:55:00Z"});
    return text_of(top_frame(run, {80, 24}, kNoon, 300));
  };
  const std::string paused = event("paused");
  EXPECT_TRUE(paused.starts_with("digits  paused  process 12 on host 'a'\n")) << paused;
  EXPECT_EQ(paused.find("left"), paused.npos) << "nobody knows how long it waits";
  EXPECT_EQ(paused.find("steps/s"), paused.npos);
  EXPECT_TRUE(event("ctl").starts_with("digits  paused  ")) << "after a command it still waits";
  EXPECT_TRUE(event("continued").starts_with("digits  running  "));
}

TEST(TopFrameTest, FitsEveryWindow) {
  RunSummary run = alive();
  run.name = "ein sehr langer Name 漢字漢字";
  for (int i = 0; i < 30; ++i) run.logged["eval/metric " + std::to_string(i)] = ramp(i + 1);
  for (const FrameSize size : {FrameSize{80, 24}, {200, 50}, {40, 10}, {10, 3}, {1, 1}}) {
    const std::vector<FrameLine> lines = top_frame(run, size, kNoon, 0);
    EXPECT_LE(lines.size(), static_cast<size_t>(size.rows));
    for (const FrameLine& line : lines) {
      EXPECT_LE(columns(line.text), static_cast<size_t>(size.columns)) << line.text;
    }
  }
  EXPECT_EQ(top_frame(run, {80, 24}, kNoon, 0).back().text, "start          at step 0");
}

TEST(TopFrameTest, PhasesThatDoNotFitAreLeftOut) {
  RunSummary run = alive();
  run.last_seconds = {{"data", 1}, {"backward", 3}, {"forward", 2}, {"optimizer", 4}};
  for (const auto& [columns, wanted] : std::vector<std::pair<int, std::string>>{
           {80, "input wait     10 %       optimizer 40 %  backward 30 %  forward 20 %\n"},
           {60, "input wait     10 %       optimizer 40 %  backward 30 %\n"},
           {30, "input wait     10 %       \n"}}) {
    const std::string text = text_of(top_frame(run, {columns, 24}, kNoon, 0));
    EXPECT_NE(text.find(wanted), text.npos) << text;
  }
}

TEST(TopFrameTest, EmptyRunHasAPicture) {
  RunSummary run;
  run.name = "new";
  EXPECT_EQ(text_of(top_frame(run, {80, 24}, kNoon, 0)),
            "new  crashed\nstep 0\nepoch          0          \n");
}

TEST(SparklineTest, IsAsWideAsItMayBe) {
  EXPECT_EQ(sparkline(ramp(8), 20), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(ramp(1000), 4), "▁▃▆█");
  EXPECT_EQ(sparkline(ramp(1), 4), "▁");
  Curve constant;
  for (int64_t step = 1; step <= 100000; ++step) constant.add(step, 0.003);
  EXPECT_EQ(sparkline(constant, 4), "▁▁▁▁") << "means of equal values";
  EXPECT_EQ(sparkline(ramp(5), 0), "");
  EXPECT_EQ(sparkline(Curve(), 4), "");
}

TEST(SparklineTest, TheLocaleMayLackBlocks) {
  Curve curve;
  for (int64_t step = 1; step <= 8; ++step) curve.add(step, static_cast<double>(step));
  EXPECT_EQ(sparkline(curve, 8), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(curve, 8, false), "_.-~+=*#");
}

}  // namespace
}  // namespace accel::top_frame_test
