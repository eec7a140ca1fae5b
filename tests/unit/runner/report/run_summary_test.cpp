#include "runner/report/run_summary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/runner/report/recorded_run.h"

namespace accel::run_summary_test {
namespace {

TEST(RunSummaryTest, WholeRunIsSummedUp) {
  RecordedRun run;
  run.record().event(0, "start", "at step 0");
  run.record().plan(0, std::vector<Measurement>{{"total_steps", 100}, {"ranks", 2}});
  run.record().about(0, {{"device", "cpu"}});
  run.train(100);
  run.record().evaluation(100, std::vector<Measurement>{{"eval/accuracy", 0.75}});
  run.record().event(100, "save", "/a/run/checkpoints/checkpoint_100 in 5 ms");
  run.record().use(100, std::vector<Measurement>{{"time/save", 0.5}, {"memory_mib", 190}});
  run.record().event(100, "end", "");
  run.flush();
  const RunSummary found = read_run(run.dir());
  EXPECT_EQ(found.name, "digits");
  EXPECT_EQ(found.step, 100);
  EXPECT_EQ(found.samples, 800);
  EXPECT_EQ(found.loss.pieces().size(), 100u);
  EXPECT_EQ(found.curve("eval/accuracy")->last(), 0.75);
  EXPECT_EQ(found.curve("memory_mib")->last(), 190);
  EXPECT_EQ(found.curve("nothing"), nullptr);
  EXPECT_EQ(found.planned("total_steps"), 100);
  EXPECT_EQ(found.planned("nothing"), 0);
  EXPECT_EQ(found.seconds.at("data"), 2.5);
  EXPECT_EQ(found.total_seconds(), 10.5);
  EXPECT_EQ(found.last_interval, 10);
  EXPECT_EQ(found.last_seconds.at("forward"), 0.75);  // not of the time after the last step
  EXPECT_EQ(found.last_seconds.count("save"), 0u);
  EXPECT_EQ(found.saves, 1);
  EXPECT_EQ(found.last_save.text, "checkpoint_100 in 5 ms");
  EXPECT_EQ(found.events.size(), 2u);
  EXPECT_EQ(found.standing(), RunStanding::kFinished);
}

TEST(RunSummaryTest, StandingFollowsFromTheLastWord) {
  const std::pair<std::vector<std::string>, RunStanding> cases[] = {
      {{"start", "end"}, RunStanding::kFinished},
      {{"start", "interrupted"}, RunStanding::kInterrupted},
      {{"start", "failed"}, RunStanding::kFailed},
      {{"start"}, RunStanding::kCrashed},
      {{"start", "failed", "resume"}, RunStanding::kCrashed},
      {{"start", "interrupted", "resume", "changed", "end"}, RunStanding::kFinished},
      {{}, RunStanding::kCrashed},
  };
  for (const auto& [events, standing] : cases) {
    RecordedRun run;
    for (const std::string& name : events) run.record().event(0, name, "");
    run.flush();
    EXPECT_EQ(read_run(run.dir()).standing(), standing) << (events.empty() ? "" : events.back());
  }
}

TEST(RunSummaryTest, FailureIsShownWhereItHappened) {
  RecordedRun run;
  run.record().event(0, "start", "");
  run.train(30);
  run.record().event(0, "failed", "the loss is not finite");
  run.flush();
  EXPECT_EQ(read_run(run.dir()).last_event("failed")->step, 30);
}

TEST(RunSummaryTest, TornAndForeignLinesArePassedOver) {
  RecordedRun run;
  run.train(10);
  run.flush();
  std::string text = file_content(run.dir() + "/metrics.jsonl");
  text += "{\"step\":11,\"los\n" + std::string(3 << 20, 'x') + "\n";
  text += "{\"step\":11,\"epoch\":0,\"samples\":88,\"loss\":0.5,\"loss_bits\":\"\",\"lr\":1}\n";
  run.write("metrics.jsonl", text + "{\"step\":12,\"epoch\":0,\"loss\":0.");
  const RunSummary found = read_run(run.dir());
  EXPECT_EQ(found.step, 11);
  EXPECT_EQ(found.loss.pieces().size(), 11u);
  EXPECT_EQ(found.damaged_lines, 2) << "the last line is not whole yet";
}

TEST(RunSummaryTest, SkippedStepsAndLossesThatAreNotFiniteAreCounted) {
  RecordedRun run;
  run.record().step({.step = 1, .loss = 1});
  run.record().step({.step = 2, .loss = NAN, .skipped = true});
  run.record().step({.step = 3, .loss = INFINITY, .skipped = true});
  run.flush();
  const RunSummary found = read_run(run.dir());
  EXPECT_EQ(found.skipped, 2);
  EXPECT_EQ(found.first_skipped, 2);
  EXPECT_EQ(found.loss.not_finite(), 2);
}

TEST(RunSummaryTest, NamesAndEventsAreBounded) {
  RecordedRun run;
  for (int i = 0; i < 1000; ++i) {
    run.record().log(i, std::vector<Measurement>{{"value/" + std::to_string(i), 1}});
    run.record().use(i, std::vector<Measurement>{{"time/" + std::to_string(i), 1}});
    run.record().event(i, "note", std::to_string(i));
  }
  run.flush();
  const RunSummary found = read_run(run.dir());
  EXPECT_EQ(found.logged.size(), 40u);
  EXPECT_EQ(found.names_left_out, 960);
  EXPECT_EQ(found.seconds.size(), 64u);
  EXPECT_EQ(found.events.size(), 200u);
  EXPECT_EQ(found.events_left_out, 800);
  EXPECT_EQ(found.events.front().text, "0");
  EXPECT_EQ(found.events.back().text, "999");
}

TEST(RunFollowerTest, ReadsWhatIsAddedAndWaitsForTheEndOfALine) {
  RecordedRun run;
  run.train(10);
  run.flush();
  RunFollower follower(run.dir());
  EXPECT_EQ(follower.update().step, 10);
  const std::string text = file_content(run.dir() + "/metrics.jsonl");
  const std::string more =
      "{\"step\":11,\"epoch\":0,\"samples\":88,\"loss\":0.5,\"loss_bits\":\"\",\"lr\":1}\n";
  run.write("metrics.jsonl", text + more.substr(0, 20));
  EXPECT_EQ(follower.update().step, 10);
  run.write("metrics.jsonl", text + more);
  EXPECT_EQ(follower.update().step, 11);
  EXPECT_EQ(follower.update().loss.pieces().size(), 11u);
}

TEST(RunFollowerTest, RecordThatAResumeCutBackIsReadAnew) {
  RecordedRun run;
  run.train(30);
  run.flush();
  RunFollower follower(run.dir());
  EXPECT_EQ(follower.update().step, 30);
  RunRecord resumed(run.dir() + "/metrics.jsonl", 20);
  EXPECT_EQ(follower.update().step, 20);
  EXPECT_EQ(follower.update().loss.pieces().size(), 20u);
  RunRecord again(run.dir() + "/metrics.jsonl", 10);
  for (int64_t step = 11; step <= 60; ++step) again.step({.step = step, .loss = 1});
  again.flush();
  EXPECT_EQ(follower.update().loss.pieces().size(), 60u);  // longer than it was before
}

TEST(RunFollowerTest, RunThatHasOnlyBegunIsEmpty) {
  const TempFolder folder;
  folder.write("recipe.yaml", "seed: 1\n");
  EXPECT_EQ(RunFollower(folder.path()).update().step, 0);
}

TEST(RunFollowerTest, FolderThatIsNoRunIsRefused) {
  const TempFolder folder;
  EXPECT_EQ(complaint([&] { RunFollower(folder.path()); }),
            "'" + folder.path() +
                "' is not a run folder: it has no metrics.jsonl\n"
                "give the folder that 'run' printed, such as runs/NAME");
  folder.write("sweep.jsonl", "");
  EXPECT_EQ(complaint([&] { RunFollower(folder.path()); }),
            "'" + folder.path() +
                "' is not a run folder: it has no metrics.jsonl\n"
                "it is a sweep: give one of its trials, such as '" +
                folder.path() + "/trial_000'");
}

}  // namespace
}  // namespace accel::run_summary_test
