#include "runner/launch/machine_group.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "runner/launch/supervisor.h"

namespace accel {
namespace {

constexpr int64_t kCauseGraceMs = 6000;  ///< for the failure whose peers have ended already
constexpr int kSaved = static_cast<int>(ExitCode::kInterrupted);

bool restarts_after(int code) {
  return worth_a_restart(static_cast<ExitCode>(code));
}

std::string count_text(int64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

void MachineGroup::order(int64_t machine, OrderKind kind, int code) {
  orders_.push_back({.machine = machine,
                     .kind = kind,
                     .generation = generation_,
                     .machines = machines_,
                     .rank = 0,
                     .code = code});
}

bool MachineGroup::any_runs() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member.second.runs; });
}

std::string MachineGroup::missing() const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < rules_.most; ++rank) {
    if (!members_.contains(rank)) ranks.push_back(rank);
  }
  return (ranks.size() == 1 ? "machine " : "machines ") +
         accel::joined(ranks, ", ", [](int64_t rank) { return std::to_string(rank); });
}

void MachineGroup::joined(int64_t machine, const std::string& host, int64_t now_ms) {
  if (state_ == State::kFinished) return order(machine, OrderKind::kFinish, failure_);
  // A process that replaces one whose end has not been noticed yet.
  if (members_.contains(machine)) lost(machine, now_ms);
  members_[machine] = {host, false};
  if (state_ != State::kRunning) return;
  if (stopping_ || growing_) return;
  growing_ = true;
  notes_.push_back(text("machine {} ('{}') has joined: saving to continue with it", machine, host));
  for (const auto& [other, member] : members_) {
    if (member.runs) order(other, OrderKind::kSave);
  }
}

void MachineGroup::lost(int64_t machine, int64_t now_ms) {
  const auto found = members_.find(machine);
  if (found == members_.end()) return;
  const Member member = found->second;
  members_.erase(found);
  if (state_ == State::kFinished) return;
  notes_.push_back(text("machine {} ('{}') is lost", machine, member.host));
  if (state_ == State::kRunning && member.runs) {
    blame(static_cast<int>(ExitCode::kRank), true, now_ms);
    judge(now_ms);
  }
}

void MachineGroup::ended(int64_t machine, const MachineEnd& end, int64_t now_ms) {
  const auto found = members_.find(machine);
  if (found == members_.end() || end.generation != generation_ || !found->second.runs) return;
  found->second.runs = false;
  first_step_ = std::max(first_step_, end.first_step);
  if (end.code != 0 && end.code != kSaved) {
    if (!stopping_ || end.primary) blame(end.code, end.primary, now_ms);
  } else {
    well_ = std::max(well_, end.code);
  }
  judge(now_ms);
}

void MachineGroup::quit(int64_t machine, int code) {
  members_.erase(machine);
  failure_ = code;
  finish(code);
}

void MachineGroup::blame(int code, bool primary, int64_t now_ms) {
  const bool first = failure_ == 0;
  if (first || (primary && !primary_) || !restarts_after(code)) failure_ = code;
  primary_ = primary_ || primary;
  if (first) stop_at_ms_ = now_ms + kCauseGraceMs;
  if (primary) stop_all();
}

void MachineGroup::stop_all() {
  stop_at_ms_ = -1;
  if (std::exchange(stopping_, true)) return;
  for (const auto& [machine, member] : members_) {
    if (member.runs) order(machine, OrderKind::kStop);
  }
}

/// Acts once no machine has ranks.
void MachineGroup::judge(int64_t now_ms) {
  if (state_ != State::kRunning || any_runs()) return;
  if (failure_ == 0) {
    if (!growing_ || well_ != kSaved) return finish(well_);
    state_ = State::kGathering;
    since_ms_ = now_ms;
    return;
  }
  if (!restarts_after(failure_)) return finish(failure_);
  restart(now_ms);
}

void MachineGroup::restart(int64_t now_ms) {
  if (first_step_ > last_first_step_ && last_first_step_ >= 0) restarts_ = 0;
  last_first_step_ = std::max(first_step_, last_first_step_);
  if (restarts_ >= rules_.max_restarts) {
    if (restarts_ > 0) {
      notes_.push_back(
          text("no restart: {} brought no new checkpoint", count_text(restarts_, "restart")));
    }
    return finish(failure_);
  }
  ++restarts_;
  notes_.push_back(
      text("restarting all ranks ({} of at most {} restarts)", restarts_, rules_.max_restarts));
  state_ = State::kWaiting;
  since_ms_ = now_ms;
  start_at_ms_ = now_ms + back_off_ms(restarts_);
}

void MachineGroup::finish(int code) {
  if (state_ == State::kFinished) return;
  state_ = State::kFinished;
  failure_ = code;
  for (const auto& [machine, member] : members_) order(machine, OrderKind::kFinish, code);
}

void MachineGroup::start(int64_t now_ms) {
  const int64_t before = machines_;
  ++generation_;
  machines_ = static_cast<int64_t>(members_.size());
  if (machines_ < rules_.most || (before > 0 && machines_ != before)) {
    notes_.push_back(
        text("training on {} of {}: the batch and the order of samples stay, sums differ in the "
             "last bits unless 'reduction' is canonical",
             machines_, count_text(rules_.most, "machine")));
  }
  failure_ = well_ = 0;
  primary_ = growing_ = stopping_ = false;
  first_step_ = stop_at_ms_ = -1;
  state_ = State::kRunning;
  since_ms_ = now_ms;
  int64_t rank = 0;
  for (auto& [machine, member] : members_) {
    member.runs = true;
    order(machine, OrderKind::kStart);
    orders_.back().rank = rank++;
  }
}

void MachineGroup::tick(int64_t now_ms) {
  if (since_ms_ < 0) since_ms_ = now_ms;
  if (state_ == State::kRunning && stop_at_ms_ >= 0 && now_ms >= stop_at_ms_) stop_all();
  if (state_ == State::kWaiting && now_ms >= start_at_ms_) state_ = State::kGathering;
  if (state_ != State::kGathering) return;
  const auto there = static_cast<int64_t>(members_.size());
  if (there == rules_.most) return start(now_ms);
  const int64_t waited = now_ms - since_ms_;
  const int64_t limit = generation_ < 0
                            ? rules_.join_timeout_ms
                            : std::min(rules_.join_timeout_ms, rules_.regroup_timeout_ms);
  if (there >= rules_.least && waited >= limit && members_.contains(0)) return start(now_ms);
  if (waited < rules_.join_timeout_ms) return;
  notes_.push_back(text("{} did not join within {} s", missing(), rules_.join_timeout_ms / 1000));
  finish(static_cast<int>(ExitCode::kTimeout));
}

std::vector<MachineOrder> MachineGroup::take_orders() {
  return std::exchange(orders_, {});
}

std::vector<std::string> MachineGroup::take_notes() {
  return std::exchange(notes_, {});
}

}  // namespace accel
