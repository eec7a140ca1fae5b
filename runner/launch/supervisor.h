// What the launcher decides, apart from processes, signals and clocks: events in, actions out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"

namespace accel {

struct SupervisorRules {
  int64_t ranks = 1;
  int64_t timeout_ms = 600'000;       ///< how long ranks wait for one that does not come
  int64_t join_timeout_ms = 120'000;  ///< the same for one that never came anywhere, if longer
  int64_t max_restarts = 0;
};

/// How a process ended: by a signal, or with an exit code.
struct RankEnd {
  bool by_signal = false;
  int number = 0;
};

/// What a tick tells of a rank.
struct RankView {
  int64_t sequence = -1;  ///< of the collective that it is in or was in last
  bool inside = false;
  bool stopped = false;
};

enum class CauseKind {
  kNone,
  kEnded,       ///< a rank was killed, or ended with an exit code that is a failure
  kHang,        ///< ranks did not come to a collective that others wait in
  kStopped,     ///< ranks were stopped, and nobody waits in a collective that they did not come to
  kLeftBehind,  ///< ranks run on long after others have ended well
};

/// Why the ranks of a generation had to end.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  int64_t rank = -1;  ///< which ended; of a hang, which waits
  RankEnd end;
  int64_t sequence = -1;         ///< of the collective that is waited in
  std::vector<int64_t> missing;  ///< the ranks that are waited for
  int64_t limit_ms = 0;          ///< how long they were waited for

  ExitCode code() const;
};

enum class ActionKind {
  kStart,    ///< all ranks of generation `value`; none of an earlier one is left
  kForward,  ///< send signal `value` to all ranks
  kKill,     ///< SIGKILL to all ranks that are left
  kCapture,  ///< note what every rank is doing: it is part of the report
  kReport,   ///< the cause; `value` tells whether a restart follows
  kFinish,   ///< return exit code `value`; no rank is left
};

struct Action {
  ActionKind kind;
  int64_t value = 0;
};

/// The few actions that one event leads to, in order.
class Actions {
 public:
  void add(ActionKind kind, int64_t value = 0) { list_[count_++] = {kind, value}; }
  const Action* begin() const { return list_.data(); }
  const Action* end() const { return list_.data() + count_; }

 private:
  std::array<Action, 4> list_ = {};
  size_t count_ = 0;
};

/// Keeps these rules:
/// - The first rank that fails is the cause. A rank that ends with exit code 5 or 6 may only have
///   lost a peer: another that fails by itself within a second takes its place.
/// - A second after a failure, or at once after a hang, all ranks are killed.
/// - After exit codes 5, 6 and 8 all ranks are started anew, `max_restarts` times at most, unless a
///   user's signal came.
/// - The first signal of a user is forwarded; the second kills.
///
/// Events may come late, twice or not at all, and the clock may jump: time counts only as far as
/// ticks go by, at most a second for each.
class Supervisor {
 public:
  explicit Supervisor(const SupervisorRules& rules);

  Actions start(int64_t now_ms);
  /// A rank of `generation` is gone.
  Actions exited(int64_t generation, int64_t rank, RankEnd end, int64_t now_ms);
  Actions signaled(int signal);
  /// At least four times a second. `views` has one of each rank.
  Actions tick(std::span<const RankView> views, int64_t now_ms);

  int64_t generation() const { return generation_; }
  /// What the last kReport is about.
  const Cause& cause() const { return reported_; }

 private:
  enum class State { kRunning, kGrace, kKilling, kFinished };
  struct Rank {
    bool alive = true;
    RankEnd end;
    RankView view;
    int64_t inside_since_ms = 0, stopped_since_ms = 0;
  };

  void pass_time(int64_t now_ms);
  void begin_generation();
  void judge(int64_t rank, Actions& actions);
  void blame(Cause cause, bool secondary, Actions& actions);
  void kill(Actions& actions);
  void all_gone(Actions& actions);
  void look_for_hang(Actions& actions);
  bool look_for_missing(int64_t waiting, Actions& actions);
  Cause cause_of_missing(int64_t waiting) const;

  SupervisorRules rules_;
  State state_ = State::kRunning;
  std::vector<Rank> ranks_;
  Cause cause_, reported_;
  bool secondary_ = false;
  int64_t living_ = 0, generation_ = 0;
  int64_t last_now_ms_ = 0, clock_ms_ = 0;
  int64_t act_at_ms_ = 0;       ///< kill at, or again
  int64_t ended_well_ms_ = -1;  ///< when the first did
  int first_signal_ = 0, last_signal_ = 0;
};

}  // namespace accel
