#include "runner/launch/launcher.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "parallel/rendezvous/rendezvous.h"
#include "runner/launch/rank_process.h"
#include "tests/unit/reserved_port.h"
#include "tests/unit/runner/launch/launched.h"

namespace accel::launcher_test {
namespace {

constexpr int kFailed = 5, kHung = 6;
#ifdef ACCEL_ASAN
constexpr int64_t kMostKib = 1 << 20;  // freed memory is kept for a while
#else
constexpr int64_t kMostKib = 100 << 10;
#endif

/// Replaces what stands between two texts, wherever that is.
void mask(std::string& text, const std::string& before, const std::string& after, char by) {
  for (size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
    at += before.size();
    const size_t end = std::min(text.find_first_of(after, at), text.size());
    text.replace(at, end - at, 1, by);
  }
}

/// Without what differs from run to run.
std::string steady(std::string text) {
  mask(text, "(process ", " ,)", 'N');
  mask(text, "on host '", "'", 'H');
  mask(text, "silent for ", " ", 'N');
  mask(text, ", port ", "\n", 'N');
  mask(text, "' port ", " ", 'N');
  return text;
}

struct Case {
  const char* name;
  std::vector<std::string> words;
  int exit_code;
  const char* err;
};

const Case kCases[] = {
    {"AllWell", {"ranks=3", "--", "exit=0"}, 0, ""},
    {"Interrupted", {"ranks=3", "--", "exit=75"}, 75, ""},
    {"WarningsOfRankZeroOnly", {"ranks=2", "--", "print=warning: a"}, 0, "warning: a\n"},
    {"KilledInACollective",
     {"ranks=2", "--", "step=3", "1:enter=41/gradients 2", "1:kill=9", "wait"},
     kFailed,
     "error: rank 1 was killed by signal 9 (SIGKILL) at step 3, in collective 41 'gradients 2' "
     "(process N on host 'H')\n"},
    {"KilledAfterACollective",
     {"ranks=2", "--", "step=3", "enter=41/gradients 2", "leave", "phase=forward", "0:kill=11",
      "wait"},
     kFailed,
     "error: rank 0 was killed by signal 11 (SIGSEGV) at step 3, in phase 'forward', after "
     "collective 41 'gradients 2' (process N on host 'H')\n"},
    {"AbortedWithLastLines",
     {"ranks=2", "--", "1:print=terminate called", "1:print=what(): x", "1:kill=6", "wait"},
     kFailed,
     "error: rank 1 was killed by signal 6 (SIGABRT) before its first step (process N on host "
     "'H')\n  its last lines:\n    terminate called\n    what(): x\n"},
    {"LinesOfRankZeroAreNotRepeated",
     {"ranks=2", "--", "0:print=what(): x", "0:exit=42", "wait"},
     kFailed,
     "what(): x\nerror: rank 0 ended with exit code 42 before its first step (process N on host "
     "'H')\n"},
    {"MissedExpectationsAreNoFailure",
     {"ranks=2", "--", "step=3", "0:phase=expectations", "0:print=NOT met", "0:exit=1", "exit=0"},
     1,
     "NOT met\n"},
    {"ErrorsAfterExpectationsAreFailures",
     {"ranks=2", "--", "step=3", "0:phase=expectations", "0:fail=1/bad", "exit=0"},
     1,
     "error: rank 0: bad\n"},
    {"HowToGoOn",
     {"ranks=2", "go_on=accel-run resume runs/a", "--", "1:kill=9", "wait"},
     kFailed,
     "error: rank 1 was killed by signal 9 (SIGKILL) before its first step (process N on host "
     "'H')\n  hint: resume with: accel-run resume runs/a\n"},
    {"ErrorOfOneRank",
     {"ranks=2", "--", "1:print=hidden", "1:fail=3/no such file 'x'", "wait"},
     3,
     "error: rank 1: no such file 'x'\n"},
    {"SameErrorOfAll",
     {"ranks=3", "--", "fail=7/error: cannot write 'x'\n  hint: make room\n"},
     7,
     "error: cannot write 'x'\n  hint: make room\n"},
    {"ErrorWithItsPlace",
     {"ranks=2", "--", "fail=2/a.yaml:1:1: error: unknown option 'x'\n    x: 1\n    ^\n"},
     2,
     "a.yaml:1:1: error: unknown option 'x'\n    x: 1\n    ^\n"},
    {"PeersOfADeadRankAreNotTheCause",
     {"ranks=3", "--", "0:fail=5/lost rank 2", "2:sleep=100", "2:fail=4/bad checkpoint", "wait"},
     4,
     "error: rank 2: bad checkpoint\n"},
    {"OnlyPeers",
     {"ranks=2", "go_on=accel-run resume runs/a", "--", "1:fail=5/lost rank 7", "wait"},
     kFailed,
     "error: rank 1: lost rank 7\n  hint: resume with: accel-run resume "
     "runs/a\n"},
    {"Hang",
     {"ranks=2", "timeout=1", "--", "step=3", "0:enter=41/gradients 2", "1:enter=40/gradients 1",
      "1:leave", "1:phase=data", "wait"},
     kHung,
     "error: rank 1 did not reach collective 41 'gradients 2' within 1 s\n"
     "  rank 1: running at step 3, in phase 'data', after collective 40 'gradients 1' (process "
     "N, silent for N s)\n"
     "  rank 0: running at step 3, in collective 41 'gradients 2' (process N, silent for N s)\n"},
    {"HangOfAStoppedRank",
     {"ranks=3", "timeout=1", "--", "enter=0/join", "leave", "0:enter=1/sum", "2:enter=1/sum",
      "1:sleep=500", "1:kill=19", "wait"},
     kHung,
     "error: rank 1 did not reach collective 1 'sum' within 1 s\n"
     "  rank 1: stopped before its first step, after collective 0 'join' (process N, silent for N "
     "s)\n"
     "  rank 0: running before its first step, in collective 1 'sum' (process N, silent for N s)\n"
     "  rank 2: running before its first step, in collective 1 'sum' (process N, silent for N "
     "s)\n"},
    {"Stopped",
     {"ranks=2", "timeout=1", "--", "1:kill=19", "wait"},
     kHung,
     "error: rank 1 has been stopped for 1 s\n"
     "  rank 1: stopped before its first step (process N, silent for N s)\n"
     "  rank 0: running before its first step (process N, silent for N s)\n"},
    {"LeftBehind",
     {"ranks=3", "timeout=1", "--", "1:exit=0", "wait"},
     kHung,
     "error: ranks 0 and 2 still run 1 s after others have ended\n"
     "  rank 0: running before its first step (process N, silent for N s)\n"
     "  rank 2: running before its first step (process N, silent for N s)\n"
     "  rank 1: ended with exit code 0\n"},
    {"Restarted",
     {"ranks=2", "restarts=2", "go_on=x", "--", "1@0:kill=9", "0@0:exit=5", "1@1:exit=8",
      "0@1:exit=6", "exit=0"},
     0,
     "warning: rank 1 was killed by signal 9 (SIGKILL) before its first step (process N on host "
     "'H')\nwarning: restarting all ranks (1 of at most 2 restarts)\n"
     "warning: rank 1 ended with exit code 8 before its first step (process N on host 'H')\n"
     "warning: restarting all ranks (2 of at most 2 restarts)\n"},
    {"RestartsUsedUp",
     {"ranks=1", "restarts=1", "--", "kill=9"},
     kFailed,
     "warning: rank 0 was killed by signal 9 (SIGKILL) before its first step (process N on host "
     "'H')\nwarning: restarting all ranks (1 of at most 1 restarts)\n"
     "error: rank 0 was killed by signal 9 (SIGKILL) before its first step (process N on host "
     "'H')\n"},
    {"NoRestartOfARecipeError", {"ranks=1", "restarts=9", "--", "fail=2/bad"}, 2, "error: bad\n"},
    {"NoProgram",
     {"ranks=2", "program=/no/such", "--"},
     1,
     "error: cannot start '/no/such': No such file or directory\n  hint: \n"},
    {"EndedBeforeItWasReady",
     {"ranks=1", "program=/bin/false", "--"},
     1,
     "error: rank 0 ended with exit code 1 while it started (process N on host 'H')\n"},
};

TEST(LaunchTest, Reports) {
  std::vector<std::unique_ptr<Launched>> runs;
  for (const Case& one : kCases) runs.push_back(std::make_unique<Launched>(one.words));
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(kCases[i].name);
    EXPECT_EQ(runs[i]->wait(), kCases[i].exit_code);
    EXPECT_EQ(steady(runs[i]->err()), kCases[i].err);
    EXPECT_EQ(runs[i]->out(), "");
    EXPECT_EQ(runs[i]->processes().size(), 0u);
  }
}

TEST(LaunchTest, AfterAFailureAllAreGoneSoon) {
  Launched run({"ranks=3", "--", "deaf", "fork", "1:kill=9", "wait"});
  EXPECT_EQ(run.wait(), kFailed);
  EXPECT_LT(run.seconds(), 120) << "2 s when nothing else runs";
  EXPECT_EQ(run.wait_for_processes(0), 0u);
}

TEST(LaunchTest, RanksAreToldTheirPlaceAndGetNoMoreThanTheyNeed) {
  const TempFolder logs;
  Launched run({"ranks=2", "logs=" + logs.path(), "--", "place", "say=out"});
  EXPECT_EQ(run.wait(), 0);
  const std::string first = run.err(), second = text_of(logs.path("rank-1.out"));
  // The lifeline, what wakes its guard and, for rank 0, the store's socket.
  EXPECT_EQ(steady(first),
            "0/2 0/2 127.0.0.1 accel-run, listens, generation 0, token of 32, open 3, leads its "
            "group, port N\n");
  EXPECT_EQ(steady(second),
            "1/2 1/2 127.0.0.1 accel-run, no store, generation 0, token of 32, open 2, leads its "
            "group, port N\nout\n");
  EXPECT_EQ(run.out(), "out\n");
  const std::string port = first.substr(first.find("port"));
  EXPECT_NE(second.find(port), std::string::npos) << "both go to the same";
  EXPECT_FALSE(std::filesystem::exists(logs.path("rank-0.out")));
}

TEST(LaunchTest, TheLogIsMadeOnceItsFolderIsThere) {
  const TempFolder parent;
  const std::string logs = parent.path("run");
  Launched run({"ranks=2", "logs=" + logs, "--", "1:print=early", "sleep=300", "0:mkdir=" + logs,
                "1:sleep=1000", "1:print=late", "exit=0"});
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(text_of(logs + "/rank-1.out"), "early\nlate\n");

  Launched without(
      {"ranks=2", "logs=" + parent.path("never"), "--", "print=x", "1:exit=9", "wait"});
  EXPECT_EQ(without.wait(), 9);
  EXPECT_FALSE(std::filesystem::exists(parent.path("never")));
  EXPECT_EQ(without.err().find("hint"), std::string::npos) << "no log to be read";
}

TEST(LaunchTest, AFailureSaysWhereTheRestIs) {
  const TempFolder logs;
  Launched run({"ranks=2", "logs=" + logs.path(), "--", "1:print=x", "1:kill=9", "wait"});
  EXPECT_EQ(run.wait(), kFailed);
  EXPECT_NE(run.err().find("  hint: its output is in '" + logs.path("rank-1.out") + "'\n"),
            std::string::npos)
      << run.err();
}

TEST(LaunchTest, ARankThatPrintsAGigabyteNeitherBlocksNorFills) {
  const TempFolder logs;
  Launched run({"ranks=2", "logs=" + logs.path(), "--", "1:flood=1000000000", "exit=0"});
  EXPECT_EQ(run.wait(), 0);
  const std::string log = text_of(logs.path("rank-1.out"));
  const std::string end = "\naccel-run: the log is full, further output was dropped\n";
  EXPECT_EQ(log.size(), (16u << 20) + end.size());
  EXPECT_TRUE(log.ends_with(end));
  EXPECT_LT(run.max_kib(), kMostKib);
}

TEST(LaunchTest, AReaderThatReadsNothingDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Launched run({"ranks=2", "--", "0:flood=100000000", "exit=0"}, ends[1]);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_LT(run.max_kib(), kMostKib);
  close(ends[0]);
  close(ends[1]);
}

TEST(LaunchTest, ASignalIsForwardedOnceAndRanksSave) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    Launched run({"ranks=3", "--", "save", "0:print=ready", "wait"});
    ASSERT_TRUE(run.wait_for("ready"));
    kill(run.pid(), signal);
    EXPECT_EQ(run.wait(), 75);
    EXPECT_EQ(run.err(), "ready\n");
  }
}

TEST(LaunchTest, ASignalThatComesBeforeRanksListenIsNotLost) {
  Launched run({"ranks=2", "--", "0:print=up", "sleep=1000", "save", "wait"});
  ASSERT_TRUE(run.wait_for("up"));
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait(), 75);
}

TEST(LaunchTest, ASecondSignalEndsAllAtOnce) {
  Launched run({"ranks=3", "--", "deaf", "fork", "0:print=ready", "wait"});
  ASSERT_TRUE(run.wait_for("ready"));
  kill(run.pid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_GE(run.processes().size(), 4u) << "they were only asked";
  kill(run.pid(), SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_EQ(run.wait_for_processes(0), 0u);
  EXPECT_EQ(run.err(), "ready\n");
}

TEST(LaunchTest, NohupKeepsItsMeaning) {
  signal(SIGHUP, SIG_IGN);
  Launched run({"ranks=1", "--", "save", "print=ready", "wait"});
  signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(run.wait_for("ready"));
  kill(run.pid(), SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(run.processes().size(), 2u);
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait(), 75);
}

TEST(LaunchTest, CtrlZStopsTheRanksToo) {
  Launched run({"ranks=2", "--", "save", "0:print=ready", "wait"});
  ASSERT_TRUE(run.wait_for("ready"));
  const auto wait_for_state = [&](bool stopped) {
    for (int i = 0; i < 6000; ++i) {
      size_t count = 0;
      for (const pid_t pid : run.processes()) count += process_state(pid) == 'T';
      if (count == (stopped ? 3u : 0u)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  };
  kill(run.pid(), SIGTSTP);
  EXPECT_TRUE(wait_for_state(true));
  kill(run.pid(), SIGCONT);
  EXPECT_TRUE(wait_for_state(false));
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait(), 75);
}

TEST(LaunchTest, NothingOutlivesALauncherThatIsKilled) {
  for (const char* state : {"wait", "kill=19", "unguarded", "unguarded"}) {
    Launched run({"ranks=3", "--", "deaf", state, "wait"});
    ASSERT_EQ(run.wait_for_processes(4), 4u);
    kill(run.pid(), SIGKILL);
    EXPECT_EQ(run.wait(), 1000 + SIGKILL);
    EXPECT_EQ(run.wait_for_processes(0), 0u);
  }
}

TEST(LaunchTest, WhatARankStartedEndsWithIt) {
  Launched killed({"ranks=2", "--", "fork", "1:kill=9", "wait"});
  EXPECT_EQ(killed.wait(), kFailed);
  EXPECT_EQ(killed.wait_for_processes(0), 0u);
  Launched done({"ranks=2", "--", "fork", "exit=0"});
  EXPECT_EQ(done.wait(), 0);
  EXPECT_EQ(done.wait_for_processes(0), 0u);
}

TEST(LaunchTest, SixtyFourRanks) {
  Launched well({"ranks=64", "--", "exit=0"});
  EXPECT_EQ(well.wait(), 0);
  Launched dead({"ranks=64", "--", "step=3", "63:kill=9", "wait"});
  EXPECT_EQ(dead.wait(), kFailed);
  EXPECT_EQ(steady(dead.err()),
            "error: rank 63 was killed by signal 9 (SIGKILL) at step 3 (process N on host 'H')\n");
  EXPECT_EQ(dead.processes().size(), 0u);
}

TEST(LaunchTest, TwentyAtOnce) {
  for (const std::string& port : {std::string(), "port=" + std::to_string(reserved_port())}) {
    std::vector<std::unique_ptr<Launched>> runs;
    for (int i = 0; i < 20; ++i) {
      std::vector<std::string> words = {"ranks=2", "--", "0:place", "0:sleep=300", "exit=0"};
      if (!port.empty()) words.insert(words.begin(), port);
      runs.push_back(std::make_unique<Launched>(words));
    }
    for (const auto& run : runs) {
      EXPECT_EQ(run->wait(), 0);
      EXPECT_NE(run->err().find("listens"), std::string::npos) << run->err();
    }
  }
}

TEST(LaunchTest, SeveralMachinesMeetAtTheGivenPort) {
  const std::string port = "port=" + std::to_string(reserved_port());
  const std::vector<std::string> words = {"ranks=2", "machines=2", "ip=localhost", port, "join=60"};
  const auto on_machine = [&](const char* machine, std::vector<std::string> script) {
    script.insert(script.begin(), words.begin(), words.end());
    script.insert(script.begin(), machine);
    return script;
  };
  const TempFolder logs;
  Launched second(on_machine("machine=1", {"logs=" + logs.path(), "--", "place"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(text_of(logs.path("rank-2.out")), "") << "it waits for the other";
  Launched first(on_machine("machine=0", {"--", "place", "sleep=2000"}));
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.err(), "");
  EXPECT_EQ(steady(first.err()),
            "0/4 0/2 localhost accel-run, listens, generation 0, token of 32, open 3, leads its "
            "group, port N\n");
  EXPECT_EQ(steady(text_of(logs.path("rank-2.out"))),
            "2/4 0/2 localhost accel-run, no store, generation 0, token of 32, open 2, leads its "
            "group, port N\n");
}

TEST(LaunchTest, ThePortClosesWithRankZero) {
  const int64_t port = reserved_port();
  Launched run({"ranks=2", "machines=2", "ip=127.0.0.1", "port=" + std::to_string(port), "--",
                "0:print=up", "0:sleep=500", "0:exit=0", "wait"});
  ASSERT_TRUE(run.wait_for("up"));
  EXPECT_NE(port_owner(port), "");
  for (int i = 0; i < 6000 && !port_owner(port).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(port_owner(port), "");
  EXPECT_EQ(run.processes().size(), 2u) << "the launcher and rank 1 are still there";
}

TEST(LaunchTest, AMachineThatWaitsInVain) {
  const std::vector<std::string> words = {"ranks=2",
                                          "machines=2",
                                          "machine=1",
                                          "ip=127.0.0.1",
                                          "port=" + std::to_string(reserved_port()),
                                          "join=1",
                                          "--",
                                          "wait"};
  Launched run(words);
  EXPECT_EQ(run.wait(), kHung);
  EXPECT_EQ(steady(run.err()),
            "error: no connection to '127.0.0.1' port N within 1 s: Connection refused\n  hint: "
            "start accel-run on machine 0 too, and open its port in the firewall; "
            "'join_timeout' is the time to wait\n");
  std::vector<std::string> longer = words;
  longer[5] = "join=600";
  Launched stopped(longer);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  kill(stopped.pid(), SIGTERM);
  EXPECT_TRUE(stopped.wait() == 128 + SIGTERM);
}

}  // namespace
}  // namespace accel::launcher_test
