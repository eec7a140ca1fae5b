#include "parallel/pipeline/check.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

using Fault = std::optional<std::string>;
using Pass = std::pair<int64_t, int64_t>;  // stage, micro-batch

/// The actions of all ranks, run in turn. Each find_*() returns the first fault of one sort.
class ScheduleCheck {
 public:
  ScheduleCheck(const PipelineSchedule& schedule, const std::vector<int64_t>& most_alive)
      : schedule_(schedule), layout_(schedule.layout), most_alive_(most_alive) {}

  Fault find_pass() const;
  Fault find_message() const;
  /// Runs all ranks; one waits until the message that it receives is sent.
  Fault find_run();

 private:
  struct Rank {
    size_t next = 0;
    std::set<Pass> received_activations, received_gradients;
    std::set<Pass> forward, backward_input, alive;
  };

  Fault find_order(int64_t rank) const;
  /// Whether the action could run; a fault when it never can.
  bool run(int64_t rank, const PipelineAction& action);
  bool has_activation(const Rank& rank, const PipelineAction& action) const;
  bool has_gradient(const Rank& rank, const PipelineAction& action) const;
  void forward(int64_t rank, const PipelineAction& action);
  void backward(int64_t rank, const PipelineAction& action);
  void fail(int64_t rank, const std::string& what) {
    if (!fault_) fault_ = text("rank {}: {}", rank, what);
  }

  const PipelineSchedule& schedule_;
  const PipelineLayout& layout_;
  const std::vector<int64_t>& most_alive_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int64_t, int64_t>, std::deque<PipelineAction>> on_the_way_;
  Fault fault_;
};

Fault ScheduleCheck::find_order(int64_t rank) const {
  std::map<std::pair<ActionKind, int64_t>, int64_t> next;  // by kind and stage
  for (const PipelineAction& action : schedule_.ranks[static_cast<size_t>(rank)]) {
    if (action.stage < 0 || action.stage >= layout_.stages() ||
        layout_.rank_of(action.stage) != rank) {
      return text("rank {}: {} is of another rank", rank, to_string(action));
    }
    if (is_message(action.kind)) continue;
    if (next[{action.kind, action.stage}]++ == action.micro_batch) continue;
    return text("rank {}: {} is out of order", rank, to_string(action));
  }
  for (int64_t index = 0; index < layout_.stages_per_rank; ++index) {
    const int64_t stage = layout_.stage_of(rank, index);
    const auto count = [&](ActionKind kind) { return next[{kind, stage}]; };
    const int64_t whole = count(ActionKind::kBackward);
    const bool backward = whole == schedule_.micro_batches ||
                          (count(ActionKind::kBackwardInput) == schedule_.micro_batches &&
                           count(ActionKind::kBackwardWeight) == schedule_.micro_batches);
    if (backward && count(ActionKind::kForward) == schedule_.micro_batches) continue;
    return text("rank {}: passes of stage {} are missing", rank, stage);
  }
  return std::nullopt;
}

Fault ScheduleCheck::find_pass() const {
  if (schedule_.ranks.size() != static_cast<size_t>(layout_.ranks)) {
    return text("{} ranks have actions, not {}", schedule_.ranks.size(), layout_.ranks);
  }
  for (int64_t rank = 0; rank < layout_.ranks; ++rank) {
    if (Fault fault = find_order(rank)) return fault;
  }
  return std::nullopt;
}

Fault ScheduleCheck::find_message() const {
  using Channel = std::pair<int64_t, int64_t>;
  std::map<Channel, std::vector<PipelineAction>> sent, received;
  for (const auto& of_rank : schedule_.ranks) {
    for (const PipelineAction& action : of_rank) {
      if (!is_message(action.kind)) continue;
      const PipelineMessage message = message_of(layout_, action);
      if (message.from == message.to) return text("{} goes to its own rank", to_string(action));
      auto& list = is_send(action.kind) ? sent : received;
      list[{message.from, message.to}].push_back(message.received);
    }
  }
  for (int64_t from = 0; from < layout_.ranks; ++from) {
    for (int64_t to = 0; to < layout_.ranks; ++to) {
      const auto &out = sent[{from, to}], &in = received[{from, to}];
      const auto [differs, other] = std::mismatch(out.begin(), out.end(), in.begin(), in.end());
      if (differs == out.end() && other == in.end()) continue;
      const std::string send = differs == out.end() ? "nothing" : to_string(*differs);
      const std::string receive = other == in.end() ? "nothing" : to_string(*other);
      return text("rank {} sends {} where rank {} receives {}", from, send, to, receive);
    }
  }
  return std::nullopt;
}

bool ScheduleCheck::has_activation(const Rank& rank, const PipelineAction& action) const {
  if (action.stage == 0) return true;
  const Pass pass = {action.stage, action.micro_batch};
  if (layout_.sends_after(action.stage - 1)) return rank.received_activations.contains(pass);
  return rank.forward.contains({action.stage - 1, action.micro_batch});
}

bool ScheduleCheck::has_gradient(const Rank& rank, const PipelineAction& action) const {
  if (action.stage + 1 == layout_.stages()) return true;
  const Pass pass = {action.stage, action.micro_batch};
  if (layout_.sends_after(action.stage)) return rank.received_gradients.contains(pass);
  return rank.backward_input.contains({action.stage + 1, action.micro_batch});
}

void ScheduleCheck::forward(int64_t rank, const PipelineAction& action) {
  Rank& state = ranks_[static_cast<size_t>(rank)];
  if (!has_activation(state, action)) fail(rank, to_string(action) + " has no input");
  const Pass pass = {action.stage, action.micro_batch};
  state.forward.insert(pass);
  state.alive.insert(pass);
  const int64_t most = most_alive_[static_cast<size_t>(rank)];
  if (static_cast<int64_t>(state.alive.size()) > most) {
    fail(rank, text("{} is one activation more than {}", to_string(action), most));
  }
}

void ScheduleCheck::backward(int64_t rank, const PipelineAction& action) {
  Rank& state = ranks_[static_cast<size_t>(rank)];
  const Pass pass = {action.stage, action.micro_batch};
  if (action.kind == ActionKind::kBackwardWeight) {
    if (!state.backward_input.contains(pass)) {
      fail(rank, to_string(action) + " comes before the input gradient");
    }
  } else {
    if (!state.forward.contains(pass)) fail(rank, to_string(action) + " comes before the forward");
    if (!has_gradient(state, action)) fail(rank, to_string(action) + " has no gradient");
    state.backward_input.insert(pass);
  }
  if (action.kind != ActionKind::kBackwardInput) state.alive.erase(pass);
}

bool ScheduleCheck::run(int64_t rank, const PipelineAction& action) {
  Rank& state = ranks_[static_cast<size_t>(rank)];
  const Pass pass = {action.stage, action.micro_batch};
  switch (action.kind) {
    case ActionKind::kForward:
      forward(rank, action);
      return true;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
      backward(rank, action);
      return true;
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient: {
      const bool is_made = action.kind == ActionKind::kSendActivation
                               ? state.forward.contains(pass)
                               : state.backward_input.contains(pass);
      if (!is_made) fail(rank, text("the {} is sent before it is computed", to_string(action)));
      const PipelineMessage message = message_of(layout_, action);
      on_the_way_[{message.from, message.to}].push_back(message.received);
      return true;
    }
    case ActionKind::kReceiveActivation:
    case ActionKind::kReceiveGradient: {
      const PipelineMessage message = message_of(layout_, action);
      auto& messages = on_the_way_[{message.from, message.to}];
      if (messages.empty()) return false;
      messages.pop_front();
      (action.kind == ActionKind::kReceiveActivation ? state.received_activations
                                                     : state.received_gradients)
          .insert(pass);
      return true;
    }
  }
  return false;
}

Fault ScheduleCheck::find_run() {
  ranks_.resize(schedule_.ranks.size());
  for (bool moves = true; moves && !fault_;) {
    moves = false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      size_t& next = ranks_[rank].next;
      const auto& actions = schedule_.ranks[rank];
      for (; next < actions.size() && run(static_cast<int64_t>(rank), actions[next]); ++next) {
        moves = true;
      }
    }
  }
  for (size_t rank = 0; rank < ranks_.size() && !fault_; ++rank) {
    if (ranks_[rank].next == schedule_.ranks[rank].size()) continue;
    fail(static_cast<int64_t>(rank), text("deadlock: the {} is never sent",
                                          to_string(schedule_.ranks[rank][ranks_[rank].next])));
  }
  return fault_;
}

}  // namespace

Fault find_fault(const PipelineSchedule& schedule, const std::vector<int64_t>& most_alive) {
  ScheduleCheck check(schedule, most_alive);
  if (Fault fault = check.find_pass()) return fault;
  if (Fault fault = check.find_message()) return fault;
  return check.find_run();
}

void check_pipeline_schedule(PipelineKind kind, const PipelineSchedule& schedule) {
  std::vector<int64_t> most;
  for (int64_t rank = 0; rank < schedule.layout.ranks; ++rank) {
    most.push_back(most_alive(kind, schedule.layout, schedule.micro_batches, rank));
  }
  if (const Fault fault = find_fault(schedule, most)) {
    throw std::logic_error(text("a pipeline schedule is wrong: {}", *fault));
  }
}

}  // namespace accel
