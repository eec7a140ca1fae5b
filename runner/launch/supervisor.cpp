#include "runner/launch/supervisor.h"

#include <algorithm>
#include <utility>

namespace accel {
namespace {

constexpr int64_t kGraceMs = 1000;
/// For the failure of the peer that a rank has lost: on a busy machine it may end seconds later.
constexpr int64_t kPeerGraceMs = 5000;
constexpr int64_t kKillAgainMs = 200;
constexpr int64_t kLongestTickMs = 1000;
constexpr int64_t kBackOffMs = 1000, kLongestBackOffMs = 30'000;

bool is_code(RankEnd end, ExitCode code) {
  return !end.by_signal && end.number == static_cast<int>(code);
}

bool ended_well(RankEnd end) {
  return is_code(end, ExitCode::kDone) || is_code(end, ExitCode::kInterrupted);
}

/// Whether the exit code is that of a rank that lost a peer.
bool maybe_secondary(RankEnd end) {
  return is_code(end, ExitCode::kRank) || is_code(end, ExitCode::kTimeout);
}

}  // namespace

bool worth_a_restart(ExitCode code) {
  return code == ExitCode::kRank || code == ExitCode::kTimeout || code == ExitCode::kMemory;
}

int64_t back_off_ms(int64_t restarts) {
  if (restarts <= 1) return 0;
  return std::min(kLongestBackOffMs, kBackOffMs << std::min<int64_t>(restarts - 2, 5));
}

ExitCode Cause::code() const {
  if (kind != CauseKind::kEnded) return ExitCode::kTimeout;
  const bool of_house = !end.by_signal && end.number >= static_cast<int>(ExitCode::kOther) &&
                        (end.number <= static_cast<int>(ExitCode::kDiverged) ||
                         end.number == static_cast<int>(ExitCode::kInUse));
  return of_house ? static_cast<ExitCode>(end.number) : ExitCode::kRank;
}

Supervisor::Supervisor(const SupervisorRules& rules)
    : rules_(rules), ranks_(static_cast<size_t>(rules.ranks)), generation_(rules.generation) {}

void Supervisor::pass_time(int64_t now_ms) {
  clock_ms_ += std::clamp<int64_t>(now_ms - last_now_ms_, 0, kLongestTickMs);
  last_now_ms_ = now_ms;
}

void Supervisor::begin_generation() {
  state_ = State::kRunning;
  cause_ = {};
  secondary_ = stopped_ = false;
  ended_well_ms_ = first_step_ = -1;
  living_ = rules_.ranks;
  for (Rank& rank : ranks_) {
    rank = {};
    rank.inside_since_ms = rank.stopped_since_ms = clock_ms_;
  }
}

Actions Supervisor::start(int64_t now_ms) {
  last_now_ms_ = now_ms;
  begin_generation();
  Actions actions;
  actions.add(SupervisorActionKind::kStart, generation_);
  return actions;
}

void Supervisor::kill(Actions& actions) {
  state_ = State::kKilling;
  act_at_ms_ = clock_ms_ + kKillAgainMs;
  actions.add(SupervisorActionKind::kKill);
}

void Supervisor::blame(Cause cause, bool secondary, Actions& actions) {
  cause_ = std::move(cause);
  secondary_ = secondary;
  // The state of the awaited ranks is visible only while they live.
  if (cause_.code() == ExitCode::kTimeout) actions.add(SupervisorActionKind::kCapture);
  const bool lost_peer = secondary && cause_.kind == CauseKind::kEnded;
  const int64_t end_of_grace = clock_ms_ + (lost_peer ? kPeerGraceMs : kGraceMs);
  if (state_ == State::kGrace) act_at_ms_ = std::min(act_at_ms_, end_of_grace);
  if (state_ != State::kRunning) return;
  state_ = State::kGrace;
  act_at_ms_ = end_of_grace;
}

void Supervisor::judge(int64_t rank, Actions& actions) {
  const RankEnd end = ranks_[static_cast<size_t>(rank)].end;
  if (ended_well(end)) {
    if (ended_well_ms_ < 0) ended_well_ms_ = clock_ms_;
    return;
  }
  const bool secondary = maybe_secondary(end);
  if (cause_.kind != CauseKind::kNone && (secondary || !secondary_)) return;
  Cause cause = is_code(end, ExitCode::kTimeout) ? cause_of_missing(rank) : Cause();
  if (cause.kind == CauseKind::kNone) {
    cause = {.kind = CauseKind::kEnded,
             .rank = rank,
             .end = end,
             .sequence = -1,
             .missing = {},
             .limit_ms = 0};
  }
  blame(std::move(cause), secondary, actions);
}

Actions Supervisor::exited(int64_t generation, int64_t rank, RankEnd end, int64_t now_ms) {
  Actions actions;
  pass_time(now_ms);
  Rank& gone = ranks_[static_cast<size_t>(rank)];
  if (generation != generation_ || !gone.alive || state_ == State::kFinished) return actions;
  gone.alive = false;
  gone.end = end;
  --living_;
  if (state_ != State::kKilling) judge(rank, actions);
  if (living_ == 0) all_gone(actions);
  return actions;
}

void Supervisor::all_gone(Actions& actions) {
  const bool failed = cause_.kind != CauseKind::kNone;
  if (first_step_ > last_first_step_ && last_first_step_ >= 0) restarts_ = 0;
  last_first_step_ = std::max(first_step_, last_first_step_);
  const bool again = failed && worth_a_restart(cause_.code()) && first_signal_ == 0 &&
                     restarts_ < rules_.max_restarts;
  if (failed) actions.add(SupervisorActionKind::kReport, again);
  reported_ = std::move(cause_);
  if (again) return restart(actions);
  state_ = State::kFinished;
  int64_t code = static_cast<int64_t>(failed ? reported_.code() : ExitCode::kDone);
  for (const Rank& rank : ranks_) {
    if (!failed && rank.end.number != 0) code = rank.end.number;
  }
  if (!failed && stopped_) code = static_cast<int64_t>(ExitCode::kRank);
  actions.add(SupervisorActionKind::kFinish, last_signal_ != 0 ? 128 + last_signal_ : code);
}

/// At once, or after back-off.
void Supervisor::restart(Actions& actions) {
  ++generation_;
  ++restarts_;
  if (restarts_ == 1) {
    begin_generation();
    actions.add(SupervisorActionKind::kStart, generation_);
    return;
  }
  state_ = State::kWaiting;
  act_at_ms_ = clock_ms_ + back_off_ms(restarts_);
}

Actions Supervisor::stop() {
  Actions actions;
  stopped_ = true;
  if (state_ == State::kRunning || state_ == State::kGrace) kill(actions);
  return actions;
}

Actions Supervisor::signaled(int signal) {
  Actions actions;
  if (state_ == State::kFinished) return actions;
  if (state_ == State::kWaiting) {  // nothing runs: the failure counts
    state_ = State::kFinished;
    actions.add(SupervisorActionKind::kFinish, static_cast<int64_t>(reported_.code()));
    return actions;
  }
  if (first_signal_ == 0) {
    first_signal_ = signal;
    if (state_ == State::kRunning) actions.add(SupervisorActionKind::kForward, signal);
  } else {
    last_signal_ = signal;
    kill(actions);
  }
  return actions;
}

Actions Supervisor::tick(std::span<const RankView> views, int64_t now_ms) {
  Actions actions;
  pass_time(now_ms);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const RankView& now = views[i];
    if (!now.inside || !rank.view.inside || now.sequence != rank.view.sequence) {
      rank.inside_since_ms = clock_ms_;
    }
    if (!now.stopped || !rank.view.stopped) rank.stopped_since_ms = clock_ms_;
    rank.view = now;
    first_step_ = std::max(first_step_, now.first_step);
  }
  if (state_ == State::kWaiting) {
    if (clock_ms_ < act_at_ms_) return actions;
    begin_generation();
    actions.add(SupervisorActionKind::kStart, generation_);
    return actions;
  }
  if (state_ == State::kRunning) look_for_hang(actions);
  const bool due = clock_ms_ >= act_at_ms_;
  if (due && (state_ == State::kGrace || state_ == State::kKilling)) kill(actions);
  return actions;
}

Cause Supervisor::cause_of_missing(int64_t waiting) const {
  const RankView& view = ranks_[static_cast<size_t>(waiting)].view;
  Cause cause;
  cause.rank = waiting;
  cause.sequence = view.sequence;
  cause.limit_ms = rules_.timeout_ms;
  if (!view.inside) return cause;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankView& other = ranks_[i].view;
    if (other.sequence >= view.sequence) continue;
    cause.missing.push_back(static_cast<int64_t>(i));
    if (other.sequence < 0) cause.limit_ms = std::max(rules_.timeout_ms, rules_.join_timeout_ms);
  }
  if (!cause.missing.empty()) cause.kind = CauseKind::kHang;
  return cause;
}

bool Supervisor::look_for_missing(int64_t waiting, Actions& actions) {
  const Rank& rank = ranks_[static_cast<size_t>(waiting)];
  const int64_t waited = clock_ms_ - rank.inside_since_ms;
  if (!rank.alive || !rank.view.inside || waited < rules_.timeout_ms) return false;
  Cause cause = cause_of_missing(waiting);
  if (cause.kind == CauseKind::kNone || waited < cause.limit_ms) return false;
  blame(std::move(cause), false, actions);
  return true;
}

void Supervisor::look_for_hang(Actions& actions) {
  for (int64_t i = 0; i < rules_.ranks; ++i) {
    if (look_for_missing(i, actions)) return kill(actions);
  }
  Cause stopped, left;
  stopped.limit_ms = left.limit_ms = rules_.timeout_ms;
  for (int64_t i = 0; i < rules_.ranks; ++i) {
    const Rank& rank = ranks_[static_cast<size_t>(i)];
    if (!rank.alive) continue;
    left.missing.push_back(i);
    if (rank.view.stopped && clock_ms_ - rank.stopped_since_ms >= rules_.timeout_ms) {
      stopped.missing.push_back(i);
    }
  }
  if (!stopped.missing.empty()) {
    stopped.kind = CauseKind::kStopped;
    blame(std::move(stopped), false, actions);
    return kill(actions);
  }
  if (ended_well_ms_ < 0 || clock_ms_ - ended_well_ms_ < rules_.timeout_ms) return;
  left.kind = CauseKind::kLeftBehind;
  blame(std::move(left), false, actions);
  kill(actions);
}

}  // namespace accel
