#include "runner/launch/supervisor.h"

#include <gtest/gtest.h>

#include <csignal>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace accel::supervisor_test {
namespace {

constexpr RankView kAway = {3, false, false}, kWaits = {4, true, false},
                   kStopped = {3, false, true};

/// Plays events against a supervisor of three ranks, and writes down what it does.
class Play {
 public:
  explicit Play(int64_t max_restarts = 0)
      : supervisor_({.ranks = 3,
                     .timeout_ms = 5000,
                     .join_timeout_ms = 8000,
                     .max_restarts = max_restarts}) {
    note(supervisor_.start(now_));
    taken();
  }

  Play& code(int64_t rank, int code) { return end(rank, {false, code}); }
  Play& killed(int64_t rank, int signal) { return end(rank, {true, signal}); }
  Play& signal(int signal) {
    note(supervisor_.signaled(signal));
    return *this;
  }

  /// Ticks, a quarter of a second each.
  Play& wait(int64_t milliseconds, std::array<RankView, 3> views = {kAway, kAway, kAway}) {
    for (int64_t end = now_ + milliseconds; now_ < end;) {
      now_ += 250;
      note(supervisor_.tick(views, now_));
    }
    return *this;
  }

  Play& jump(int64_t milliseconds) {
    now_ += milliseconds;
    return *this;
  }

  Play& all_end_by_kill() {
    for (int64_t rank = 0; rank < 3; ++rank) killed(rank, SIGKILL);
    return *this;
  }

  /// What was done since the last call, such as "kill report:again start:1".
  std::string taken() { return std::exchange(actions_, ""); }
  const Cause& cause() const { return supervisor_.cause(); }

 private:
  Play& end(int64_t rank, RankEnd end) {
    note(supervisor_.exited(supervisor_.generation(), rank, end, now_));
    return *this;
  }

  void note(const Actions& actions) {
    static const char* const kNames[] = {"start", "forward", "kill", "capture", "report", "finish"};
    for (const Action& action : actions) {
      if (!actions_.empty()) actions_ += ' ';
      actions_ += kNames[static_cast<int>(action.kind)];
      const bool counts = action.kind != SupervisorActionKind::kKill &&
                          action.kind != SupervisorActionKind::kCapture;
      if (counts) actions_ += ':' + std::to_string(action.value);
    }
  }

  Supervisor supervisor_;
  int64_t now_ = 1'000'000;
  std::string actions_;
};

TEST(SupervisorTest, AllWell) {
  EXPECT_EQ(Play().code(0, 0).code(1, 0).code(2, 0).taken(), "finish:0");
  EXPECT_EQ(Play().code(0, 75).code(1, 75).code(2, 75).taken(), "finish:75");
}

TEST(SupervisorTest, AKilledRankEndsAllWithinTwoSeconds) {
  Play play;
  EXPECT_EQ(play.killed(1, SIGSEGV).wait(750).taken(), "");
  EXPECT_EQ(play.wait(250).taken(), "kill");
  EXPECT_EQ(play.killed(0, SIGKILL).killed(2, SIGKILL).taken(), "report:0 finish:5");
  EXPECT_EQ(play.cause().rank, 1);
  EXPECT_EQ(play.cause().end.number, SIGSEGV);
}

TEST(SupervisorTest, AKillThatWentAstrayIsRepeated) {
  EXPECT_EQ(Play().killed(1, SIGKILL).wait(1500).taken(), "kill kill kill");
}

TEST(SupervisorTest, ExitCodesOfCauses) {
  const std::pair<int, int> cases[] = {{1, 1}, {2, 2}, {3, 3},  {4, 4},   {5, 5},   {6, 6},  {7, 7},
                                       {8, 8}, {9, 9}, {10, 5}, {11, 11}, {127, 5}, {255, 5}};
  for (const auto& [ended_with, code] : cases) {
    Play play;
    play.code(0, ended_with).wait(ended_with == 5 || ended_with == 6 ? 5000 : 1000).taken();
    EXPECT_EQ(play.all_end_by_kill().taken(), "report:0 finish:" + std::to_string(code));
  }
}

TEST(SupervisorTest, ARankThatLostItsPeerIsNotTheCause) {
  for (const int secondary : {5, 6}) {
    Play play;
    EXPECT_EQ(play.code(0, secondary).wait(4750).code(2, 3).code(1, secondary).taken(),
              std::string(secondary == 6 ? "capture " : "") + "report:0 finish:3");
    EXPECT_EQ(play.cause().rank, 2);
  }
  Play alone;
  EXPECT_EQ(alone.code(2, 5).code(0, 5).code(1, 5).taken(), "report:0 finish:5");
  EXPECT_EQ(alone.cause().rank, 2) << "the first, when there is no better";
}

TEST(SupervisorTest, ALaterFailureIsNotTheCause) {
  Play play;
  EXPECT_EQ(play.code(1, 3).killed(0, SIGABRT).code(2, 2).taken(), "report:0 finish:3");
  Play slow;
  EXPECT_EQ(slow.code(0, 5).wait(4750).taken(), "");
  EXPECT_EQ(slow.wait(250).taken(), "kill");
  EXPECT_EQ(slow.code(1, 3).killed(2, SIGKILL).taken(), "report:0 finish:5") << "it was killed";
}

TEST(SupervisorTest, TheCauseOfALostPeerEndsTheWaitForIt) {
  Play play;
  EXPECT_EQ(play.code(0, 5).wait(2000).code(1, 7).wait(750).taken(), "");
  EXPECT_EQ(play.wait(250).taken(), "kill");
  EXPECT_EQ(play.killed(2, SIGKILL).taken(), "report:0 finish:7");
}

TEST(SupervisorTest, AHangNamesWhoDidNotCome) {
  Play play;
  EXPECT_EQ(play.wait(5000, {kWaits, kAway, kWaits}).taken(), "");
  EXPECT_EQ(play.wait(250, {kWaits, kAway, kWaits}).taken(), "capture kill");
  EXPECT_EQ(play.all_end_by_kill().taken(), "report:0 finish:6");
  EXPECT_EQ(play.cause().kind, CauseKind::kHang);
  EXPECT_EQ(play.cause().rank, 0);
  EXPECT_EQ(play.cause().sequence, 4);
  EXPECT_EQ(play.cause().missing, std::vector<int64_t>{1});
}

TEST(SupervisorTest, SlowIsNoHang) {
  Play play;
  for (int64_t sequence = 4; sequence < 20; ++sequence) {
    play.wait(4750, {RankView{sequence, true, false}, RankView{sequence - 1, false, false},
                     RankView{sequence, true, false}});
  }
  play.wait(60'000, {kWaits, kWaits, kWaits});  // all are there: the network may be slow
  EXPECT_EQ(play.taken(), "");
}

TEST(SupervisorTest, ARankThatNeverCameHasTheTimeToJoin) {
  const RankView new_one;
  Play play;
  EXPECT_EQ(play.wait(8000, {kWaits, new_one, kWaits}).taken(), "");
  EXPECT_EQ(play.wait(250, {kWaits, new_one, kWaits}).taken(), "capture kill");
}

TEST(SupervisorTest, AWatchdogThatIsFasterMeansTheSameHang) {
  Play play;
  play.wait(1000, {kWaits, kAway, kWaits});
  EXPECT_EQ(play.code(2, 6).code(0, 6).taken(), "capture");
  EXPECT_EQ(play.wait(1000, {kWaits, kAway, kWaits}).killed(1, SIGKILL).taken(),
            "kill report:0 finish:6");
  EXPECT_EQ(play.cause().kind, CauseKind::kHang);
  EXPECT_EQ(play.cause().missing, std::vector<int64_t>{1});
}

TEST(SupervisorTest, StoppedRanksAreAHang) {
  Play play;
  EXPECT_EQ(play.wait(4000, {kAway, kStopped, kAway}).wait(250).taken(), "");
  EXPECT_EQ(play.wait(5250, {kAway, kStopped, kAway}).taken(), "capture kill");
  EXPECT_EQ(play.all_end_by_kill().taken(), "report:0 finish:6");
  EXPECT_EQ(play.cause().kind, CauseKind::kStopped);
  EXPECT_EQ(play.cause().missing, std::vector<int64_t>{1});
}

TEST(SupervisorTest, RanksLeftBehindAreNamed) {
  Play play;
  EXPECT_EQ(play.code(0, 0).wait(4750).taken(), "");
  EXPECT_EQ(play.wait(250).taken(), "capture kill");
  EXPECT_EQ(play.killed(1, SIGKILL).killed(2, SIGKILL).taken(), "report:0 finish:6");
  EXPECT_EQ(play.cause().kind, CauseKind::kLeftBehind);
  EXPECT_EQ(play.cause().missing, (std::vector<int64_t>{1, 2}));
}

TEST(SupervisorTest, TheFirstSignalIsForwardedTheSecondKills) {
  Play play;
  EXPECT_EQ(play.signal(SIGTERM).taken(), "forward:15");
  EXPECT_EQ(play.signal(SIGINT).taken(), "kill");
  EXPECT_EQ(play.all_end_by_kill().taken(), "finish:130");
  Play saved;
  EXPECT_EQ(saved.signal(SIGHUP).code(0, 75).code(1, 75).code(2, 75).taken(),
            "forward:1 finish:75");
}

TEST(SupervisorTest, RestartsWhatMayGoBetterTheNextTime) {
  Play play(2);
  EXPECT_EQ(play.killed(0, SIGKILL).code(1, 5).code(2, 5).taken(), "report:1 start:1");
  EXPECT_EQ(play.cause().rank, 0);
  EXPECT_EQ(play.code(1, 8).code(0, 5).code(2, 5).taken(), "report:1");
  EXPECT_EQ(play.wait(1250).taken(), "start:2");  // no progress: back-off
  EXPECT_EQ(play.cause().rank, 1);
  EXPECT_EQ(play.code(2, 6).code(1, 6).code(0, 6).taken(), "capture report:0 finish:6");
  Play recovered(1);
  recovered.killed(0, SIGKILL).code(1, 5).code(2, 5).taken();
  EXPECT_EQ(recovered.code(0, 0).code(1, 0).code(2, 0).taken(), "finish:0");
}

TEST(SupervisorTest, RestartsNothingThatFailsAgain) {
  for (const int code : {1, 2, 3, 4, 7, 9}) {
    EXPECT_EQ(Play(9).code(0, code).code(1, 5).code(2, 5).taken(),
              "report:0 finish:" + std::to_string(code));
  }
}

TEST(SupervisorTest, RestartsNothingThatAUserStops) {
  Play play(9);
  EXPECT_EQ(play.signal(SIGTERM).killed(0, SIGTERM).code(1, 5).code(2, 5).taken(),
            "forward:15 report:0 finish:5");
  Play late(9);
  EXPECT_EQ(late.killed(0, SIGKILL).signal(SIGINT).code(1, 5).code(2, 5).taken(),
            "report:0 finish:5");
}

TEST(SupervisorTest, EventsOfAnEarlierGenerationDoNotCount) {
  Supervisor supervisor(
      {.ranks = 1, .timeout_ms = 1000, .join_timeout_ms = 1000, .max_restarts = 1});
  supervisor.start(0);
  supervisor.exited(0, 0, {true, SIGKILL}, 0);
  const Actions late = supervisor.exited(0, 0, {true, SIGKILL}, 0);
  EXPECT_EQ(late.begin(), late.end());
  EXPECT_EQ(supervisor.generation(), 1);
}

TEST(SupervisorTest, AClockThatJumpsIsNoTimeout) {
  Play play;
  play.wait(1000, {kWaits, kAway, kWaits}).jump(3'600'000).wait(1000, {kWaits, kAway, kWaits});
  play.jump(-7'200'000).wait(1000, {kWaits, kAway, kWaits});
  EXPECT_EQ(play.taken(), "");
}

TEST(SupervisorTest, AStopByAnotherMachineKillsAllWithoutACause) {
  Supervisor supervisor({.ranks = 1, .timeout_ms = 5000, .join_timeout_ms = 5000});
  supervisor.start(0);
  const Actions stopped = supervisor.stop();
  ASSERT_EQ(stopped.end() - stopped.begin(), 1);
  EXPECT_EQ(stopped.begin()->kind, SupervisorActionKind::kKill);
  const Actions ended = supervisor.exited(0, 0, {true, SIGKILL}, 10);
  ASSERT_EQ(ended.end() - ended.begin(), 1);
  EXPECT_EQ(ended.begin()->kind, SupervisorActionKind::kFinish);
  EXPECT_EQ(ended.begin()->value, 5);
}

/// The times at which a rank that is killed at once is started, in milliseconds.
std::vector<int64_t> starts_of(int64_t max_restarts, int64_t steps_per_life) {
  Supervisor supervisor(
      {.ranks = 1, .timeout_ms = 5000, .join_timeout_ms = 5000, .max_restarts = max_restarts});
  std::vector<int64_t> starts;
  int64_t step = 4;
  bool runs = false;
  const auto note = [&](const Actions& actions, int64_t now) {
    for (const Action& action : actions) {
      if (action.kind != SupervisorActionKind::kStart) continue;
      starts.push_back(now);
      runs = true;
    }
  };
  note(supervisor.start(0), 0);
  for (int64_t now = 0; now < 20'000 && starts.size() < 8; now += 250) {
    const RankView view = {.sequence = 1, .first_step = step};
    note(supervisor.tick(std::span(&view, 1), now), now);
    if (!std::exchange(runs, false)) continue;
    const RankView first = {.sequence = 1, .first_step = step};
    note(supervisor.tick(std::span(&first, 1), now), now);
    note(supervisor.exited(supervisor.generation(), 0, {true, SIGKILL}, now), now);
    step += steps_per_life;
  }
  return starts;
}

TEST(SupervisorTest, RestartsWithoutProgressBackOff) {
  EXPECT_EQ(starts_of(3, 0), (std::vector<int64_t>{0, 0, 1250, 3250}));
}

TEST(SupervisorTest, ANewCheckpointResetsTheCountOfRestarts) {
  EXPECT_EQ(starts_of(1, 4).size(), 8u);
}

}  // namespace
}  // namespace accel::supervisor_test
