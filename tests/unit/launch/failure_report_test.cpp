#include "runner/launch/failure_report.h"

#include <gtest/gtest.h>

#include <csignal>

namespace accel {
namespace {

FailureFacts of_killed_rank() {
  FailureFacts facts;
  facts.cause.kind = CauseKind::kEnded;
  facts.cause.rank = 1;
  facts.cause.end = {true, SIGKILL};
  facts.first_rank = 4;
  facts.host = "a";
  facts.ranks.resize(2);
  for (int64_t i = 0; i < 2; ++i) {
    RankSight& rank = facts.ranks[static_cast<size_t>(i)];
    rank.pid = rank.status.pid = 100 + i;
    rank.status.step = 3;
  }
  return facts;
}

FailureFacts of_error(const std::string& text, int code, bool of_all) {
  FailureFacts facts = of_killed_rank();
  facts.cause.end = {false, code};
  facts.go_on_with = "accel-run resume x";
  for (RankSight& rank : facts.ranks) {
    rank.status.failed = of_all || &rank == &facts.ranks[1];
    rank.status.error = rank.status.failed ? text : "";
  }
  return facts;
}

TEST(FailureReportTest, RanksOfAnotherMachineCount) {
  EXPECT_EQ(report_text(of_killed_rank()),
            "error: rank 5 was killed by signal 9 (SIGKILL) at step 3 (process 101 on host 'a')\n");
}

TEST(FailureReportTest, AllThatHelps) {
  FailureFacts facts = of_killed_rank();
  facts.out_of_memory = true;
  facts.log_path = "runs/x/rank-5.out";
  facts.go_on_with = "accel-run resume runs/x";
  facts.last_lines = {"one", "tw\x1bo"};
  EXPECT_EQ(report_text(facts),
            "error: rank 5 was killed by signal 9 (SIGKILL) at step 3 (process 101 on host 'a')\n"
            "  hint: the kernel has ended a process for lack of memory: use smaller batches or "
            "fewer ranks; what it printed is in 'runs/x/rank-5.out'; go on from the last "
            "checkpoint: accel-run resume runs/x\n"
            "  its last lines:\n    one\n    tw\\x1bo\n");
}

TEST(FailureReportTest, UnknownSignalsHaveNoName) {
  FailureFacts facts = of_killed_rank();
  facts.cause.end.number = 60;
  EXPECT_EQ(report_text(facts),
            "error: rank 5 was killed by signal 60 at step 3 (process 101 on host 'a')\n");
}

TEST(FailureReportTest, AnErrorIsNamedByItsRankUnlessAllHaveIt) {
  EXPECT_EQ(report_text(of_error("bad data", 3, false)), "error: rank 5: bad data\n");
  EXPECT_EQ(report_text(of_error("bad data", 3, true)), "error: bad data\n");
}

TEST(FailureReportTest, HowToGoOnIsToldWhereThatMayHelp) {
  EXPECT_EQ(report_text(of_error("lost a peer", 5, false)),
            "error: rank 5: lost a peer\n  hint: go on from the last checkpoint: accel-run resume "
            "x\n");
  EXPECT_EQ(report_text(of_error("lost a peer\n  hint: see to it\n", 5, false)),
            "error: rank 5: lost a peer\n  hint: see to it\n");
}

TEST(FailureReportTest, WhatEachRankDidIsToldWhereOneWaitedInVain) {
  FailureFacts facts = of_error("error: rank 5 waited\n  hint: look for it\n", 6, false);
  facts.ranks[0].state = 'R';
  facts.ranks[0].silent_seconds = 4;
  EXPECT_EQ(report_text(facts),
            "error: rank 5 waited\n  rank 4: running at step 3 (process 100, silent for 4 s)\n"
            "  rank 5: ended with exit code 0\n  hint: look for it\n");
}

TEST(FailureReportTest, ManyRanksAreNotAllTold) {
  FailureFacts facts;
  facts.cause.kind = CauseKind::kHang;
  facts.cause.rank = 0;
  facts.cause.missing = {62, 63};
  facts.cause.limit_ms = 5000;
  facts.ranks.resize(64);
  facts.ranks[0].status.sequence = 7;
  facts.ranks[0].status.collective = "sum";
  const std::string text = report_text(facts);
  EXPECT_TRUE(
      text.starts_with("error: ranks 62 and 63 did not come to collective 7 'sum' within 5 "
                       "s\n  rank 62: ended with exit code 0\n  rank 63: "))
      << text;
  EXPECT_TRUE(text.ends_with("  rank 29: ended with exit code 0\n  and 32 more\n")) << text;
}

TEST(FailureReportTest, ProgramsReadTheSameAsALineOfJson) {
  FailureFacts killed = of_killed_rank();
  EXPECT_EQ(report_json(killed, "error"),
            "{\"severity\": \"error\", \"message\": \"rank 5 was killed by signal 9 (SIGKILL) at "
            "step 3 (process 101 on host 'a')\", \"rank\": 5}\n");
  killed.last_lines = {"one", "tw\"o"};
  killed.go_on_with = "accel-run resume x";
  EXPECT_EQ(report_json(killed, "warning"),
            "{\"severity\": \"warning\", \"message\": \"rank 5 was killed by signal 9 (SIGKILL) at "
            "step 3 (process 101 on host 'a')\", \"hint\": \"go on from the last checkpoint: "
            "accel-run resume x\", \"rank\": 5, \"last_lines\": [\"one\", \"tw\\\"o\"]}\n");
  EXPECT_EQ(warning_json("a \"b\""), "{\"severity\": \"warning\", \"message\": \"a \\\"b\\\"\"}\n");
  FailureFacts hang = of_killed_rank();
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
    FailureFacts facts;
    const char* text;
  } cases[] = {
      {of_error(bad, 3, true), "{\"severity\": \"error\", \"message\": \"bad\"}\n"},
      {of_error(bad, 3, false), "{\"severity\": \"error\", \"message\": \"bad\", \"rank\": 5}\n"},
      {of_error(bad, 5, false),
       "{\"severity\": \"error\", \"message\": \"bad\", \"rank\": 5, \"hint\": \"go on from the "
       "last "
       "checkpoint: accel-run resume x\"}\n"},
      {of_error(bad, 6, false),
       "{\"severity\": \"error\", \"message\": \"bad\", \"rank\": 5, \"ranks\": [\"rank 4: ended "
       "with "
       "exit code 0\", \"rank 5: ended with exit code 0\"], \"hint\": \"go on from the last "
       "checkpoint: accel-run resume x\"}\n"},
      {of_error("{\"message\": \"a\"}\n{\"message\": \"b\"}", 2, true),
       "{\"message\": \"a\"}\n{\"message\": \"b\"}\n"},
      {of_error("plain", 3, false),
       "{\"severity\": \"error\", \"message\": \"plain\", \"hint\": \"go on "
       "from the last checkpoint: accel-run resume x\", \"rank\": 5}\n"},
  };
  for (const auto& one : cases) EXPECT_EQ(report_json(one.facts, "error"), one.text);
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
      {"a.yaml:1:1: error: bad\n", 1, "error: rank 1: a.yaml:1:1: error: bad\n"},
  };
  for (const auto& one : cases) EXPECT_EQ(rank_error_text(one.given, one.rank), one.text);
}

}  // namespace
}  // namespace accel
