// The launcher's decisions in a simulated world: processes that die, stall, stop and end late,
// kills and news of ends that go astray, a clock that jumps, users with signals. ACCEL_SCHEDULE=N
// repeats schedule N alone and prints what happens in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runner/launch/supervisor.h"

namespace accel::supervisor_simulation_test {
namespace {

constexpr int64_t kNever = int64_t{1} << 40;
constexpr int64_t kLongestRun = 120'000;  // simulated milliseconds
constexpr size_t kMostRanks = 4;

/// SplitMix64: a million generators must cost nothing to make.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// From `least` up to and including `most`.
  int64_t pick(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(next() % static_cast<uint64_t>(most - least + 1));
  }
  bool one_in(int64_t n) { return pick(1, n) == 1; }

 private:
  uint64_t state_;
};

struct SimulatedRank {
  bool alive = false, reported = false, killed = false;
  int64_t dies_at = kNever;
  RankEnd end;
  int64_t news_at = kNever;  ///< when the launcher learns of its end
};

bool is_failure(RankEnd end) {
  return end.by_signal || (end.number != 0 && end.number != 75);
}

bool may_be_secondary(RankEnd end) {
  return !end.by_signal && (end.number == 5 || end.number == 6);
}

int code_for(RankEnd end) {
  return !end.by_signal && end.number >= 1 && end.number <= 9 ? end.number : 5;
}

/// What goes wrong with one rank of a generation, at `at`.
struct Trouble {
  enum Kind { kNone, kDies, kStalls, kStops } kind = kNone;
  size_t rank = 0;
  int64_t at = kNever;
  int64_t goes_on_at = kNever;  ///< of one that is stopped
};

class World {
 public:
  World(uint64_t seed, bool trace)
      : dice_(seed), trace_(trace), ranks_(static_cast<size_t>(dice_.pick(1, kMostRanks))) {
    rules_.ranks = static_cast<int64_t>(ranks_.size());
    rules_.timeout_ms = dice_.pick(1500, 3000);
    rules_.join_timeout_ms = dice_.pick(1000, 4000);
    rules_.max_restarts = dice_.one_in(2) ? 0 : dice_.pick(1, 3);
    if (dice_.one_in(4)) signal_at_[0] = dice_.pick(0, 5000);
    if (signal_at_[0] != kNever && dice_.one_in(2)) {
      signal_at_[1] = signal_at_[0] + dice_.pick(0, 2000);
    }
    if (dice_.one_in(4)) jump_at_ = dice_.pick(0, 4000);
  }

  /// What went against the rules; empty: nothing.
  std::string run() {
    Supervisor supervisor(rules_);
    obey(supervisor, supervisor.start(now()));
    while (!finished_ && wrong_.empty()) {
      step(supervisor);
      if (time_ > kLongestRun) fail("it does not end");
    }
    return wrong_;
  }

 private:
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what + " at " + std::to_string(time_) + " ms";
  }

  void note(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    if (!trace_) return;
    std::printf("%6lld ms: ", static_cast<long long>(time_));
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::printf("\n");
  }

  int64_t now() const { return time_ + clock_ahead_; }
  size_t any_rank() { return static_cast<size_t>(dice_.pick(0, rules_.ranks - 1)); }

  RankEnd own_failure() {
    constexpr RankEnd kEnds[] = {{true, SIGKILL}, {true, SIGSEGV}, {true, SIGABRT}, {false, 1},
                                 {false, 2},      {false, 3},      {false, 4},      {false, 5},
                                 {false, 6},      {false, 7},      {false, 8},      {false, 9},
                                 {false, 42}};
    return kEnds[dice_.pick(0, std::size(kEnds) - 1)];
  }

  void dies(size_t rank, int64_t at, RankEnd end) {
    if (at >= ranks_[rank].dies_at) return;
    ranks_[rank].dies_at = at;
    ranks_[rank].end = end;
  }

  /// How the ranks of a generation live, if nobody interferes.
  void plan() {
    born_ = time_;
    period_ = dice_.pick(200, 500);
    failures_.clear();
    failed_at_ = kNever;
    killing_ = false;
    hang_ = false;
    trouble_ = {};
    ends_at_ = time_ + dice_.pick(200, 3000);
    for (SimulatedRank& rank : ranks_) rank = {.alive = true, .end = {}};
    if (dice_.one_in(2)) plan_trouble();
    const bool blocked = trouble_.kind == Trouble::kDies || trouble_.goes_on_at == kNever;
    if (blocked && trouble_.kind != Trouble::kNone) {
      ends_at_ = kNever;
    } else if (trouble_.kind == Trouble::kStops) {
      ends_at_ += trouble_.goes_on_at - trouble_.at;
    }
    left_behind_ = trouble_.kind == Trouble::kNone && ranks_.size() > 1 && dice_.one_in(16);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (trouble_.kind != Trouble::kNone && blocked) {
        if (i != trouble_.rank) plan_peer(i);
      } else if (!(left_behind_ && i == 0)) {
        dies(i, ends_at_ + dice_.pick(0, 300), {false, 0});
      }
    }
    if (trouble_.kind != Trouble::kNone && dice_.one_in(8)) {
      dies(any_rank(), trouble_.at + dice_.pick(0, 1500), own_failure());
    }
  }

  void plan_trouble() {
    trouble_.kind = static_cast<Trouble::Kind>(dice_.pick(Trouble::kDies, Trouble::kStops));
    const bool alone = ranks_.size() == 1;  // nobody would wait for it
    if (alone && trouble_.kind == Trouble::kStalls) trouble_.kind = Trouble::kStops;
    trouble_.rank = any_rank();
    trouble_.at = dice_.pick(time_, ends_at_);
    if (trouble_.kind == Trouble::kDies) dies(trouble_.rank, trouble_.at, own_failure());
    // A jump of the clock may count as a tick of a second.
    if (trouble_.kind == Trouble::kStops && dice_.one_in(2)) {
      trouble_.goes_on_at = trouble_.at + dice_.pick(0, rules_.timeout_ms - 1300);
    }
  }

  /// One that loses its peer notices, or its watchdog does, or it waits for ever.
  void plan_peer(size_t rank) {
    if (trouble_.kind == Trouble::kDies && dice_.one_in(2)) {
      dies(rank, trouble_.at + dice_.pick(0, 1500), {false, 5});
    } else if (dice_.one_in(3)) {
      dies(rank, trouble_.at + rules_.timeout_ms + dice_.pick(0, 500), {false, 6});
    }
  }

  /// Ranks enter a collective in the second half of each period, all but the one in trouble.
  RankView view_of(size_t rank) const {
    const bool mine = trouble_.rank == rank && trouble_.at != kNever;
    int64_t worked = std::min(time_, ends_at_) - born_;
    const int64_t trouble = trouble_.at - born_;
    if (trouble_.at != kNever && worked >= trouble) {
      const int64_t going_on = trouble_.goes_on_at - born_;
      if (worked < going_on) {
        const int64_t sequence = trouble / period_;
        if (!mine) return {.sequence = sequence, .inside = true, .stopped = false};
        return {.sequence = sequence - 1,
                .inside = false,
                .stopped = trouble_.kind == Trouble::kStops && ranks_[rank].alive};
      }
      worked -= going_on - trouble;
    }
    return {.sequence = worked / period_ - (worked % period_ * 2 < period_ ? 1 : 0),
            .inside = worked % period_ * 2 >= period_ && time_ < ends_at_,
            .stopped = false};
  }

  void step(Supervisor& supervisor) {
    int64_t next = std::min({next_tick_, signal_at_[0], signal_at_[1], jump_at_});
    for (const SimulatedRank& rank : ranks_) {
      next = std::min(next, rank.alive ? rank.dies_at : rank.reported ? kNever : rank.news_at);
    }
    time_ = std::max(time_, next);
    if (time_ >= jump_at_) {
      jump_at_ = kNever;
      clock_ahead_ += dice_.pick(-3'600'000, 3'600'000);
      note("the clock jumps");
    }
    for (SimulatedRank& rank : ranks_) {
      if (!rank.alive || rank.dies_at > time_) continue;
      rank.alive = false;
      rank.news_at = time_ + (dice_.one_in(2) ? 0 : dice_.pick(0, 250));
    }
    tell_of_ends(supervisor);
    send_signals(supervisor);
    if (time_ >= next_tick_ && !finished_) tick(supervisor);
  }

  void tell_of_ends(Supervisor& supervisor) {
    const int64_t generation = supervisor.generation();
    for (size_t i = 0; i < ranks_.size() && generation == supervisor.generation(); ++i) {
      SimulatedRank& rank = ranks_[i];
      if (rank.alive || rank.reported || rank.news_at > time_) continue;
      rank.reported = true;
      note("rank %zu has ended: %s %d", i, rank.end.by_signal ? "signal" : "code", rank.end.number);
      if (is_failure(rank.end) && !killing_) {
        failures_.push_back(rank.end);
        failed_at_ = std::min(failed_at_, time_);
      }
      const auto id = static_cast<int64_t>(i);
      const RankEnd end = rank.end;
      obey(supervisor, supervisor.exited(generation, id, end, now()));
      if (dice_.one_in(16) && !finished_) {  // reported twice
        obey(supervisor, supervisor.exited(generation, id, end, now()));
      }
    }
  }

  void send_signals(Supervisor& supervisor) {
    for (int64_t& at : signal_at_) {
      if (at > time_ || finished_) continue;
      at = kNever;
      ++signals_;
      note("a user's signal");
      const bool killed = killing_;
      killing_ = false;
      obey(supervisor, supervisor.signaled(signals_ == 1 ? SIGTERM : SIGINT));
      if (signals_ == 2 && !killing_) fail("a second signal does not kill at once");
      killing_ |= killed;
    }
  }

  void tick(Supervisor& supervisor) {
    next_tick_ = time_ + dice_.pick(100, 200);
    if (dice_.one_in(8))
      return obey(supervisor, supervisor.tick({views_.data(), ranks_.size()}, now()));
    for (size_t i = 0; i < ranks_.size(); ++i) views_[i] = view_of(i);
    obey(supervisor, supervisor.tick({views_.data(), ranks_.size()}, now()));
  }

  void obey(Supervisor& supervisor, const Actions& actions) {
    for (const Action& action : actions) {
      if (finished_) fail("an action after the end");
      switch (action.kind) {
        case SupervisorActionKind::kStart:
          check_start(action.value, supervisor);
          plan();
          break;
        case SupervisorActionKind::kForward:
          forward();
          break;
        case SupervisorActionKind::kKill:
          kill_all();
          break;
        case SupervisorActionKind::kCapture:
          hang_ = true;
          failed_at_ = std::min(failed_at_, time_);
          break;
        case SupervisorActionKind::kReport:
          check_report(supervisor, action.value != 0);
          break;
        case SupervisorActionKind::kFinish:
          check_finish(action.value);
          break;
      }
    }
  }

  void forward() {
    note("the signal is forwarded");
    if (signals_ != 1 || forwarded_) fail("a signal is forwarded that should not be");
    forwarded_ = true;
    if (time_ >= trouble_.at || dice_.one_in(4)) return;  // they cannot agree, or do not listen
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].alive) dies(i, time_ + dice_.pick(50, 800), {false, 75});
    }
    ends_at_ = time_;
    trouble_ = {};
    if (dice_.one_in(16)) dies(any_rank(), time_, {true, SIGTERM});
  }

  void kill_all() {
    note("all are killed");
    killing_ = true;
    for (SimulatedRank& rank : ranks_) {
      if (!rank.alive) continue;
      const bool astray = !rank.killed && dice_.one_in(8);
      rank.killed = true;
      const int64_t at = time_ + dice_.pick(0, 50);
      if (astray || at >= rank.dies_at) continue;
      rank.dies_at = at;
      rank.end = {true, SIGKILL};
    }
  }

  bool any_alive() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.alive; });
  }

  void check_all_gone() {
    if (any_alive()) fail("a rank is alive that should be gone");
    // A lost peer may still report its failure.
    const bool waits = !failures_.empty() && may_be_secondary(failures_.front());
    const int64_t longest = waits ? 6000 : 2000;
    if (failed_at_ != kNever && time_ - failed_at_ > longest + 250) {
      fail("ranks live too long after the first failure");  // and the news of it came late
    }
  }

  void check_start(int64_t generation, const Supervisor& supervisor) {
    note("generation %lld starts", static_cast<long long>(generation));
    if (any_alive()) fail("a rank is alive that should be gone");  // back-off may have passed
    if (generation != starts_++ || generation != supervisor.generation())
      fail("a wrong generation");
    if (generation > rules_.max_restarts) fail("more restarts than allowed");
    if (generation > 0 && !restart_announced_) fail("a restart without a report");
    restart_announced_ = false;
  }

  /// The code that the failures that were reported before the kill come to.
  int expected_code() const {
    for (const RankEnd& end : failures_) {
      if (!may_be_secondary(end)) return code_for(end);
    }
    return failures_.empty() ? 6 : hang_ ? 6 : code_for(failures_.front());
  }

  void check_report(const Supervisor& supervisor, bool restarts) {
    const int code = static_cast<int>(supervisor.cause().code());
    note("the cause has code %d", code);
    if (failures_.empty() && !hang_) return fail("a cause where nothing failed");
    if (failures_.empty() && trouble_.kind == Trouble::kNone && !left_behind_ && !forwarded_) {
      fail("a hang that was none");
    }
    // A watchdog's 6 after a lost peer's 5: the first of the two counts.
    const bool first_of_two = hang_ && !failures_.empty() && code == code_for(failures_.front());
    if (code != expected_code() &&
        !(first_of_two && may_be_secondary(failures_.front()) && expected_code() == 6)) {
      fail("the cause is " + std::to_string(code) + ", not " + std::to_string(expected_code()));
    }
    const bool again =
        (code == 5 || code == 6 || code == 8) && signals_ == 0 && starts_ - 1 < rules_.max_restarts;
    if (restarts != again) fail(again ? "no restart" : "a restart of what must not be");
    restart_announced_ = restarts;
    reported_code_ = code;
  }

  void check_finish(int64_t code) {
    note("the end: %lld", static_cast<long long>(code));
    if (restart_announced_) {  // a signal during back-off
      if (any_alive()) fail("a rank is alive that should be gone");
    } else {
      check_all_gone();
    }
    finished_ = true;
    int64_t expected = 0;
    for (const SimulatedRank& rank : ranks_) {
      if (rank.end.number == 75 && !rank.end.by_signal) expected = 75;
    }
    if (!failures_.empty() || hang_) expected = reported_code_;
    if (signals_ == 2) expected = 128 + SIGINT;
    if (code != expected) {
      fail("exit code " + std::to_string(code) + ", not " + std::to_string(expected));
    }
  }

  Dice dice_;
  bool trace_;
  SupervisorRules rules_;
  std::vector<SimulatedRank> ranks_;
  std::array<RankView, kMostRanks> views_ = {};
  Trouble trouble_;
  int64_t time_ = 0, clock_ahead_ = 0, born_ = 0, period_ = 1, ends_at_ = 0, next_tick_ = 0;
  int64_t jump_at_ = kNever, failed_at_ = kNever, starts_ = 0;
  std::array<int64_t, 2> signal_at_ = {kNever, kNever};
  std::vector<RankEnd> failures_;
  int signals_ = 0, reported_code_ = 0;
  bool killing_ = false, hang_ = false, left_behind_ = false, forwarded_ = false;
  bool finished_ = false, restart_announced_ = false;
  std::string wrong_;
};

/// The first schedule of [first, end) that goes wrong, or `end`.
uint64_t first_wrong(uint64_t first, uint64_t end) {
  for (; first < end; ++first) {
    if (!World(first, false).run().empty()) break;
  }
  return first;
}

#if defined(ACCEL_ASAN) || defined(ACCEL_TSAN)
constexpr uint64_t kSchedules = 20'000;
#elif defined(NDEBUG)
constexpr uint64_t kSchedules = 1'000'000;
#else
constexpr uint64_t kSchedules = 100'000;
#endif

TEST(SupervisorSimulationTest, KeepsItsRulesInEverySchedule) {
  if (const char* seed = std::getenv("ACCEL_SCHEDULE")) {
    EXPECT_EQ(World(std::strtoull(seed, nullptr, 10), true).run(), "");
    return;
  }
  const uint64_t wrong = first_wrong(0, kSchedules);
  EXPECT_EQ(wrong, kSchedules) << "in schedule " << wrong << ": " << World(wrong, false).run()
                               << "; set ACCEL_SCHEDULE=" << wrong << " to see it";
}

}  // namespace
}  // namespace accel::supervisor_simulation_test
