// The launcher's state machine, free of processes, signals and clocks: events in, actions out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"

namespace accel {

/// Whether a failure with this exit code may not come again: ranks lost, timeout, memory.
bool worth_a_restart(ExitCode code);

/// The pause before restart number `restarts` since the last progress: 0, 1, 2, 4, ... 30 seconds.
int64_t back_off_ms(int64_t restarts);

struct SupervisorRules {
  int64_t ranks = 1;
  int64_t timeout_ms = 600'000;       ///< limit of the wait for a missing rank
  int64_t join_timeout_ms = 120'000;  ///< the same for a rank without any collective, if longer
  int64_t max_restarts = 0;
  int64_t generation = 0;  ///< the first one
};

/// How a process ended: by a signal, or with an exit code.
struct RankEnd {
  bool by_signal = false;
  int number = 0;
};

/// The state of a rank at a tick.
struct RankView {
  int64_t sequence = -1;  ///< of the current or last collective
  bool inside = false;
  bool stopped = false;
  int64_t first_step = -1;  ///< of this generation; -1: none yet
};

enum class CauseKind {
  kNone,
  kEnded,       ///< a rank was killed or ended with a failure's exit code
  kHang,        ///< ranks did not reach a collective in which others wait
  kStopped,     ///< ranks were stopped, and no rank waits for them in a collective
  kLeftBehind,  ///< ranks still run long after others have succeeded
};

/// Why the ranks of a generation had to end.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  int64_t rank = -1;  ///< the rank that ended; of a hang, the waiting one
  RankEnd end;
  int64_t sequence = -1;         ///< of the collective in which ranks wait
  std::vector<int64_t> missing;  ///< the awaited ranks
  int64_t limit_ms = 0;          ///< the time they were awaited

  ExitCode code() const;
};

enum class SupervisorActionKind {
  kStart,    ///< start all ranks of generation `value`; no earlier rank is left
  kForward,  ///< send signal `value` to all ranks
  kKill,     ///< send SIGKILL to all remaining ranks
  kCapture,  ///< take a snapshot of every rank for the report
  kReport,   ///< report the cause; `value`: whether a restart follows
  kFinish,   ///< return exit code `value`; no rank is left
};

struct Action {
  SupervisorActionKind kind;
  int64_t value = 0;
};

/// The actions of one event, in order.
class Actions {
 public:
  void add(SupervisorActionKind kind, int64_t value = 0) { list_[count_++] = {kind, value}; }
  const Action* begin() const { return list_.data(); }
  const Action* end() const { return list_.data() + count_; }

 private:
  std::array<Action, 4> list_ = {};
  size_t count_ = 0;
};

/// Rules:
/// - The first rank that fails is the cause. A rank with exit code 5 or 6 may only have lost a
/// peer:
///   another failure within five seconds replaces it.
/// - A second after a failure, five after one that may be replaced, or at once after a hang, all
///   ranks are killed.
/// - After exit codes 5, 6 and 8 all ranks are restarted, at most `max_restarts` times, unless the
///   user sent a signal. A generation that resumed from a newer checkpoint than the one before
///   resets the count. Restarts without one wait 0, 1, 2, 4, ... 30 seconds.
/// - The user's first signal is forwarded; the second kills all ranks.
///
/// Events may arrive late, twice or not at all, and the clock may jump: each tick advances the time
/// by at most a second.
class Supervisor {
 public:
  explicit Supervisor(const SupervisorRules& rules);

  Actions start(int64_t now_ms);
  /// A rank of `generation` has ended.
  Actions exited(int64_t generation, int64_t rank, RankEnd end, int64_t now_ms);
  Actions signaled(int signal);
  /// Another machine has failed: kills all ranks. Without a cause on this one, the exit code is 5.
  Actions stop();
  /// Call at least four times a second, with a view of every rank.
  Actions tick(std::span<const RankView> views, int64_t now_ms);

  int64_t generation() const { return generation_; }
  int64_t restarts() const { return restarts_; }
  int64_t first_step() const { return first_step_; }
  /// The cause of the last kReport.
  const Cause& cause() const { return reported_; }

 private:
  enum class State { kRunning, kGrace, kKilling, kWaiting, kFinished };
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
  void restart(Actions& actions);
  void look_for_hang(Actions& actions);
  bool look_for_missing(int64_t waiting, Actions& actions);
  Cause cause_of_missing(int64_t waiting) const;

  SupervisorRules rules_;
  State state_ = State::kRunning;
  std::vector<Rank> ranks_;
  Cause cause_, reported_;
  bool secondary_ = false, stopped_ = false;
  int64_t living_ = 0, generation_ = 0, restarts_ = 0;
  int64_t first_step_ = -1, last_first_step_ = -1;
  int64_t last_now_ms_ = 0, clock_ms_ = 0;
  int64_t act_at_ms_ = 0;       ///< time of the next kill
  int64_t ended_well_ms_ = -1;  ///< end of the first rank that succeeded
  int first_signal_ = 0, last_signal_ = 0;
};

}  // namespace accel
