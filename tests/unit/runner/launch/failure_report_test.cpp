#include "runner/launch/failure_report.h"

#include <gtest/gtest.h>

#include <csignal>

namespace accel::failure_report_test {
namespace {

FailureContext of_killed_rank() {
  FailureContext context;
  context.cause.kind = CauseKind::kEnded;
  context.cause.rank = 1;
  context.cause.end = {true, SIGKILL};
  context.first_rank = 4;
  context.host = "a";
  context.ranks.resize(2);
  for (int64_t i = 0; i < 2; ++i) {
    RankSnapshot& rank = context.ranks[static_cast<size_t>(i)];
    rank.pid = rank.status.pid = 100 + i;
    rank.status.step = 3;
  }
  return context;
}

FailureContext of_error(const std::string& text, int code, bool of_all) {
  FailureContext context = of_killed_rank();
  context.cause.end = {false, code};
  context.resume_command = "accel-run resume x";
  for (RankSnapshot& rank : context.ranks) {
    rank.status.failed = of_all || &rank == &context.ranks[1];
    rank.status.error = rank.status.failed ? text : "";
  }
  return context;
}

TEST(FailureReportTest, RanksOfAnotherMachineCount) {
  EXPECT_EQ(report_text(of_killed_rank()),
            "error: rank 5 was killed by signal 9 (SIGKILL) at step 3 (process 101 on host 'a')\n");
}

TEST(FailureReportTest, RanksOfAMeshHaveTheirPlace) {
  FailureContext context = of_killed_rank();
  context.places.resize(6);
  context.places[5] = "pp 1, tp 0";
  EXPECT_EQ(report_text(context),
            "error: rank 5 (pp 1, tp 0) was killed by signal 9 (SIGKILL) at step 3 (process 101 on "
            "host 'a')\n");
}

TEST(FailureReportTest, AllThatHelps) {
  FailureContext context = of_killed_rank();
  context.out_of_memory = true;
  context.log_path = "runs/x/rank-5.out";
  context.resume_command = "accel-run resume runs/x";
  context.last_lines = {"one", "tw\x1bo"};
  EXPECT_EQ(
      report_text(context),
      "error: rank 5 was killed by signal 9 (SIGKILL) at step 3 (process 101 on host 'a')\n"
      "  hint: the kernel killed a process that ran out of memory: use smaller batches or "
      "fewer ranks; its output is in 'runs/x/rank-5.out'; resume with: accel-run resume runs/x\n"
      "  its last lines:\n    one\n    tw\\x1bo\n");
}

TEST(FailureReportTest, RanksThatTheOthersWaitForAreNamed) {
  FailureContext context = of_killed_rank();
  context.cause = Cause();
  context.cause.limit_ms = 5000;
  const std::string states =
      "\n  rank 4: ended with exit code 0\n  rank 5: ended with exit code 0\n";
  const struct {
    CauseKind kind;
    std::vector<int64_t> missing;
    const char* message;
  } cases[] = {
      {CauseKind::kStopped, {0}, "error: rank 4 has been stopped for 5 s"},
      {CauseKind::kStopped, {0, 1}, "error: ranks 4 and 5 have been stopped for 5 s"},
      {CauseKind::kLeftBehind, {0}, "error: rank 4 still runs 5 s after others have ended"},
      {CauseKind::kLeftBehind,
       {0, 1},
       "error: ranks 4 and 5 still run 5 s after others have ended"},
  };
  for (const auto& [kind, missing, message] : cases) {
    context.cause.kind = kind;
    context.cause.missing = missing;
    EXPECT_EQ(report_text(context), message + states);
  }
}

TEST(FailureReportTest, AStateSaysWhatARankDidLast) {
  FailureContext context = of_killed_rank();
  RankStatus& status = context.ranks[1].status;
  const auto report = [&] { return report_text(context); };
  const std::string killed = "error: rank 5 was killed by signal 9 (SIGKILL) ";
  const std::string process = " (process 101 on host 'a')\n";
  status.phase = "data";
  EXPECT_EQ(report(), killed + "at step 3, in phase 'data'" + process);
  status.sequence = 41;
  status.collective = "gradients 2";
  EXPECT_EQ(report(),
            killed + "at step 3, in phase 'data', after collective 41 'gradients 2'" + process);
  status.inside = true;
  status.step = -1;
  EXPECT_EQ(report(), killed + "before its first step, in collective 41 'gradients 2'" + process);
  status.pid = 0;
  EXPECT_EQ(report(), killed + "while it started" + process);
}

TEST(FailureReportTest, UnknownSignalsHaveNoName) {
  FailureContext context = of_killed_rank();
  context.cause.end.number = 60;
  EXPECT_EQ(report_text(context),
            "error: rank 5 was killed by signal 60 at step 3 (process 101 on host 'a')\n");
}

TEST(FailureReportTest, AnErrorIsNamedByItsRankUnlessAllHaveIt) {
  EXPECT_EQ(report_text(of_error("bad data", 3, false)), "error: rank 5: bad data\n");
  EXPECT_EQ(report_text(of_error("bad data", 3, true)), "error: bad data\n");
}

TEST(FailureReportTest, HowToGoOnIsToldWhereThatMayHelp) {
  EXPECT_EQ(report_text(of_error("lost a peer", 5, false)),
            "error: rank 5: lost a peer\n  hint: resume with: accel-run resume "
            "x\n");
  EXPECT_EQ(report_text(of_error("lost a peer\n  hint: see to it\n", 5, false)),
            "error: rank 5: lost a peer\n  hint: see to it\n");
}

TEST(FailureReportTest, WhatEachRankDidIsToldWhereOneWaitedInVain) {
  FailureContext context = of_error("error: rank 5 waited\n  hint: look for it\n", 6, false);
  context.ranks[0].state = 'R';
  context.ranks[0].silent_seconds = 4;
  EXPECT_EQ(report_text(context),
            "error: rank 5 waited\n  rank 4: running at step 3 (process 100, silent for 4 s)\n"
            "  rank 5: ended with exit code 0\n  hint: look for it\n");
}

TEST(FailureReportTest, ManyRanksAreNotAllTold) {
  FailureContext context;
  context.cause.kind = CauseKind::kHang;
  context.cause.rank = 0;
  context.cause.missing = {62, 63};
  context.cause.limit_ms = 5000;
  context.ranks.resize(64);
  context.ranks[0].status.sequence = 7;
  context.ranks[0].status.collective = "sum";
  const std::string text = report_text(context);
  EXPECT_TRUE(
      text.starts_with("error: ranks 62 and 63 did not reach collective 7 'sum' within 5 "
                       "s\n  rank 62: ended with exit code 0\n  rank 63: "))
      << text;
  EXPECT_TRUE(text.ends_with("  rank 29: ended with exit code 0\n  and 32 more\n")) << text;
}

TEST(FailureReportTest, ProgramsReadTheSameAsALineOfJson) {
  FailureContext killed = of_killed_rank();
  EXPECT_EQ(report_json(killed, "error"),
            "{\"severity\": \"error\", \"message\": \"rank 5 was killed by signal 9 (SIGKILL) at "
            "step 3 (process 101 on host 'a')\", \"rank\": 5}\n");
  killed.last_lines = {"one", "tw\"o"};
  killed.resume_command = "accel-run resume x";
  EXPECT_EQ(report_json(killed, "warning"),
            "{\"severity\": \"warning\", \"message\": \"rank 5 was killed by signal 9 (SIGKILL) at "
            "step 3 (process 101 on host 'a')\", \"hint\": \"resume with: "
            "accel-run resume x\", \"rank\": 5, \"last_lines\": [\"one\", \"tw\\\"o\"]}\n");
  EXPECT_EQ(warning_json("a \"b\""), "{\"severity\": \"warning\", \"message\": \"a \\\"b\\\"\"}\n");
  FailureContext hang = of_killed_rank();
  hang.cause = Cause();
  hang.cause.kind = CauseKind::kStopped;
  hang.cause.missing = {0};
  hang.cause.limit_ms = 5000;
  EXPECT_EQ(
      report_json(hang, "error"),
      "{\"severity\": \"error\", \"message\": \"rank 4 has been stopped for 5 s\", \"ranks\": "
      "[\"rank 4: ended with exit code 0\", \"rank 5: ended with exit code 0\"]}\n");
}

TEST(FailureReportTest, TheJsonOfARankGainsWhatItDidNotKnow) {
  const std::string bad = "{\"severity\": \"error\", \"message\": \"bad\"}\n";
  const struct {
    FailureContext context;
    const char* text;
  } cases[] = {
      {of_error(bad, 3, true), "{\"severity\": \"error\", \"message\": \"bad\"}\n"},
      {of_error(bad, 3, false), "{\"severity\": \"error\", \"message\": \"bad\", \"rank\": 5}\n"},
      {of_error(bad, 5, false),
       "{\"severity\": \"error\", \"message\": \"bad\", \"rank\": 5, \"hint\": \"resume with: "
       "accel-run resume x\"}\n"},
      {of_error(bad, 6, false),
       "{\"severity\": \"error\", \"message\": \"bad\", \"rank\": 5, \"ranks\": [\"rank 4: ended "
       "with "
       "exit code 0\", \"rank 5: ended with exit code 0\"], \"hint\": \"resume with: accel-run "
       "resume x\"}\n"},
      {of_error("{\"message\": \"a\"}\n{\"message\": \"b\"}", 2, true),
       "{\"message\": \"a\"}\n{\"message\": \"b\"}\n"},
      {of_error("plain", 3, false),
       "{\"severity\": \"error\", \"message\": \"plain\", \"hint\": \"resume with: accel-run "
       "resume x\", \"rank\": 5}\n"},
  };
  for (const auto& one : cases) EXPECT_EQ(report_json(one.context, "error"), one.text);
  EXPECT_EQ(report_json(of_error(bad, 3, true), "warning"),
            "{\"severity\": \"warning\", \"message\": \"bad\"}\n");
}

TEST(RankErrorTextTest, NamesTheRankInWhatItGave) {
  const struct {
    const char* given;
    int64_t rank;
    const char* text;
  } cases[] = {
      {"bad", 1, "error: rank 1: bad\n"},
      {"bad", -1, "error: bad\n"},
      {"error: bad\n  hint: x\n", 1, "error: rank 1: bad\n  hint: x\n"},
      {"error: rank 1 waited\n", 1, "error: rank 1 waited\n"},
      {"error: rank 12 waited\n", 1, "error: rank 1: rank 12 waited\n"},
      {"error: bad\n", -1, "error: bad\n"},
      {"a.yaml:1:1: error: bad\n", -1, "a.yaml:1:1: error: bad\n"},
      {"a.yaml:1:1: error: bad\n", 1, "a.yaml:1:1: error: rank 1: bad\n"},
  };
  for (const auto& one : cases) EXPECT_EQ(rank_error_text(one.given, one.rank), one.text);
}

}  // namespace
}  // namespace accel::failure_report_test
