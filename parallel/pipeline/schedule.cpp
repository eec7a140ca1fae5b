#include "parallel/pipeline/schedule.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

using Actions = std::vector<PipelineAction>;

/// Appends passes of one rank; each kind of pass of a stage takes the micro-batches in order.
class PassList {
 public:
  PassList(const PipelineLayout& layout, int64_t micro_batches, int64_t rank)
      : layout_(layout), micro_batches_(micro_batches), rank_(rank) {}

  /// The next micro-batch; nothing after the last one, as in a schedule for more of them.
  void add(ActionKind kind, int64_t index = 0) {
    const int64_t stage = layout_.stage_of(rank_, index);
    const int64_t micro_batch = count_[{kind, stage}]++;
    if (micro_batch < micro_batches_) passes_.push_back({kind, stage, micro_batch});
  }
  /// How many there are of this kind, beyond the last micro-batch included.
  int64_t count(ActionKind kind, int64_t index = 0) {
    return count_[{kind, layout_.stage_of(rank_, index)}];
  }
  Actions take() { return std::move(passes_); }

 private:
  PipelineLayout layout_;
  int64_t micro_batches_;
  int64_t rank_;
  std::map<std::pair<ActionKind, int64_t>, int64_t> count_;
  Actions passes_;
};

void add_gpipe(PassList& list, int64_t micro_batches) {
  for (int64_t i = 0; i < micro_batches; ++i) list.add(ActionKind::kForward);
  for (int64_t i = 0; i < micro_batches; ++i) list.add(ActionKind::kBackward);
}

void add_1f1b(PassList& list, const PipelineLayout& layout, int64_t micro_batches, int64_t rank) {
  const int64_t warm_up = std::min(layout.ranks - rank - 1, micro_batches);
  for (int64_t i = 0; i < warm_up; ++i) list.add(ActionKind::kForward);
  for (int64_t i = warm_up; i < micro_batches; ++i) {
    list.add(ActionKind::kForward);
    list.add(ActionKind::kBackward);
  }
  for (int64_t i = 0; i < warm_up; ++i) list.add(ActionKind::kBackward);
}

/// The order of 1F1B. Rank r puts gradients of weights off by r micro-batches, which fills the end
/// of the step, where 1F1B waits.
void add_zb_h1(PassList& list, const PipelineLayout& layout, int64_t micro_batches, int64_t rank) {
  const int64_t warm_up = std::min(layout.ranks - rank - 1, micro_batches);
  for (int64_t i = 0; i < warm_up; ++i) list.add(ActionKind::kForward);
  for (int64_t i = 0; i < micro_batches; ++i) {
    const bool is_steady = i < micro_batches - warm_up;
    if (is_steady) list.add(ActionKind::kForward);
    list.add(ActionKind::kBackwardInput);
    if (!is_steady || i >= rank) list.add(ActionKind::kBackwardWeight);
  }
  while (list.count(ActionKind::kBackwardWeight) < micro_batches) {
    list.add(ActionKind::kBackwardWeight);
  }
}

/// Forward passes of interleaved 1F1B before the first backward pass.
int64_t interleaved_warm_up(const PipelineLayout& layout, int64_t rank) {
  return (layout.stages_per_rank - 1) * layout.ranks + 2 * (layout.ranks - rank - 1);
}

/// Stages take turns: `ranks` micro-batches each.
void add_interleaved(PassList& list, const PipelineLayout& layout, int64_t micro_batches,
                     int64_t rank) {
  const int64_t ranks = layout.ranks, stages = layout.stages_per_rank;
  const int64_t rounds = (micro_batches + ranks - 1) / ranks;
  const int64_t passes = rounds * ranks * stages;
  const int64_t warm_up = std::min(passes, interleaved_warm_up(layout, rank));
  const auto forward = [&](int64_t k) { list.add(ActionKind::kForward, k / ranks % stages); };
  const auto backward = [&](int64_t k) {
    list.add(ActionKind::kBackward, stages - 1 - k / ranks % stages);
  };
  for (int64_t k = 0; k < warm_up; ++k) forward(k);
  for (int64_t k = warm_up; k < passes; ++k) {
    forward(k);
    backward(k - warm_up);
  }
  for (int64_t k = passes - warm_up; k < passes; ++k) backward(k);
}

/// Both gradients of the rank's stage number `index`.
void add_backward_pair(PassList& list, int64_t index) {
  list.add(ActionKind::kBackwardInput, index);
  list.add(ActionKind::kBackwardWeight, index);
}

/// Fewer micro-batches than fill the pipeline are the first of as many as do.
void add_zb_v(PassList& list, const PipelineLayout& layout, int64_t micro_batches, int64_t rank) {
  constexpr int64_t kDown = 0, kUp = 1;
  const int64_t after = layout.ranks - rank;  // ranks from this one to the fold
  const int64_t filled = std::max(micro_batches, 2 * layout.ranks - 1);
  for (int64_t i = 0; i < 2 * after - 1; ++i) list.add(ActionKind::kForward, kDown);
  for (int64_t i = 0; i < rank; ++i) {
    list.add(ActionKind::kForward, kUp);
    list.add(ActionKind::kForward, kDown);
  }
  for (int64_t i = 0; i < after; ++i) {
    list.add(ActionKind::kForward, kUp);
    add_backward_pair(list, kUp);
  }
  while (list.count(ActionKind::kForward, kUp) < filled) {
    if (list.count(ActionKind::kForward, kDown) < filled) list.add(ActionKind::kForward, kDown);
    add_backward_pair(list, kDown);
    list.add(ActionKind::kForward, kUp);
    add_backward_pair(list, kUp);
  }
  for (int64_t i = 0; i < rank; ++i) {
    list.add(ActionKind::kBackwardInput, kDown);
    list.add(ActionKind::kBackwardInput, kUp);
  }
  for (int64_t i = 0; i < after; ++i) add_backward_pair(list, kDown);
  for (const int64_t index : {kUp, kDown}) {
    while (list.count(ActionKind::kBackwardWeight, index) < filled) {
      list.add(ActionKind::kBackwardWeight, index);
    }
  }
}

Actions passes_of(PipelineKind kind, const PipelineLayout& layout, int64_t micro_batches,
                  int64_t rank) {
  PassList list(layout, micro_batches, rank);
  switch (kind) {
    case PipelineKind::kGpipe:
      add_gpipe(list, micro_batches);
      break;
    case PipelineKind::k1F1B:
      add_1f1b(list, layout, micro_batches, rank);
      break;
    case PipelineKind::kInterleaved1F1B:
      add_interleaved(list, layout, micro_batches, rank);
      break;
    case PipelineKind::kZbH1:
      add_zb_h1(list, layout, micro_batches, rank);
      break;
    case PipelineKind::kZbV:
      add_zb_v(list, layout, micro_batches, rank);
      break;
  }
  return list.take();
}

/// The message that a pass waits for, on the rank of its stage.
bool has_input_message(const PipelineLayout& layout, const PipelineAction& pass,
                       PipelineAction& out) {
  if (pass.kind == ActionKind::kForward) {
    if (pass.stage == 0 || !layout.sends_after(pass.stage - 1)) return false;
    out = {ActionKind::kReceiveActivation, pass.stage, pass.micro_batch};
    return true;
  }
  if (pass.kind == ActionKind::kBackwardWeight || !layout.sends_after(pass.stage)) return false;
  out = {ActionKind::kReceiveGradient, pass.stage, pass.micro_batch};
  return true;
}

/// The message of a pass's result.
bool has_output_message(const PipelineLayout& layout, const PipelineAction& pass,
                        PipelineAction& out) {
  if (pass.kind == ActionKind::kForward) {
    if (!layout.sends_after(pass.stage)) return false;
    out = {ActionKind::kSendActivation, pass.stage, pass.micro_batch};
    return true;
  }
  const bool sends = pass.stage > 0 && layout.sends_after(pass.stage - 1);
  if (pass.kind == ActionKind::kBackwardWeight || !sends) return false;
  out = {ActionKind::kSendGradient, pass.stage, pass.micro_batch};
  return true;
}

/// Adds sends after passes, and receives before them: those that the other rank sends earlier too,
/// so that the order is the same on both sides.
PipelineSchedule with_messages(const PipelineLayout& layout, int64_t micro_batches,
                               const std::vector<Actions>& passes) {
  using Channel = std::pair<int64_t, int64_t>;  // from, to
  PipelineAction message{};
  std::map<Channel, Actions> sent;  // as the receiver's actions
  for (const Actions& of_rank : passes) {
    for (const PipelineAction& pass : of_rank) {
      if (!has_output_message(layout, pass, message)) continue;
      const PipelineMessage found = message_of(layout, message);
      sent[{found.from, found.to}].push_back(found.received);
    }
  }
  PipelineSchedule out{layout, micro_batches, {}};
  std::map<Channel, size_t> received;
  for (const Actions& of_rank : passes) {
    Actions& actions = out.ranks.emplace_back();
    for (const PipelineAction& pass : of_rank) {
      if (has_input_message(layout, pass, message)) {
        const PipelineMessage found = message_of(layout, message);
        const Actions& all = sent[{found.from, found.to}];
        size_t& next = received[{found.from, found.to}];
        const auto end = std::find(all.begin(), all.end(), message) - all.begin() + 1;
        for (; next < static_cast<size_t>(end) && next < all.size(); ++next) {
          actions.push_back(all[next]);
        }
      }
      actions.push_back(pass);
      if (has_output_message(layout, pass, message)) actions.push_back(message);
    }
  }
  return out;
}

}  // namespace

int64_t PipelineLayout::rank_of(int64_t stage) const {
  const bool goes_back = is_folded && stage >= ranks;
  return goes_back ? 2 * ranks - 1 - stage : stage % ranks;
}

int64_t PipelineLayout::stage_of(int64_t rank, int64_t index) const {
  return is_folded && index == 1 ? 2 * ranks - 1 - rank : index * ranks + rank;
}

bool PipelineLayout::sends_after(int64_t stage) const {
  return stage + 1 < stages() && rank_of(stage) != rank_of(stage + 1);
}

PipelineLayout pipeline_layout(PipelineKind kind, int64_t ranks, int64_t stages_per_rank) {
  return {ranks, stages_per_rank, kind == PipelineKind::kZbV};
}

std::string to_string(const PipelineAction& action) {
  const auto named = [&](const char* what, int64_t stage) {
    return text("{} of stage {}, micro-batch {}", what, stage, action.micro_batch);
  };
  switch (action.kind) {
    case ActionKind::kForward:
      return named("forward", action.stage);
    case ActionKind::kBackward:
      return named("backward", action.stage);
    case ActionKind::kBackwardInput:
      return named("input gradient", action.stage);
    case ActionKind::kBackwardWeight:
      return named("weight gradient", action.stage);
    case ActionKind::kSendActivation:
      return named("activation", action.stage + 1);
    case ActionKind::kReceiveActivation:
      return named("activation", action.stage);
    case ActionKind::kSendGradient:
      return named("gradient", action.stage - 1);
    case ActionKind::kReceiveGradient:
      return named("gradient", action.stage);
  }
  throw std::logic_error("unknown action");
}

PipelineMessage message_of(const PipelineLayout& layout, const PipelineAction& action) {
  const int64_t stage = action.stage;
  const auto between = [&](int64_t from, int64_t to, ActionKind kind) {
    return PipelineMessage{
        layout.rank_of(from), layout.rank_of(to), {kind, to, action.micro_batch}};
  };
  switch (action.kind) {
    case ActionKind::kSendActivation:
      return between(stage, stage + 1, ActionKind::kReceiveActivation);
    case ActionKind::kReceiveActivation:
      return between(stage - 1, stage, ActionKind::kReceiveActivation);
    case ActionKind::kSendGradient:
      return between(stage, stage - 1, ActionKind::kReceiveGradient);
    case ActionKind::kReceiveGradient:
      return between(stage + 1, stage, ActionKind::kReceiveGradient);
    default:
      throw std::logic_error("a pass has no message");
  }
}

PipelineSchedule make_pipeline_schedule(PipelineKind kind, const PipelineLayout& layout,
                                        int64_t micro_batches) {
  std::vector<Actions> passes;
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    passes.push_back(passes_of(kind, layout, micro_batches, rank));
  }
  return with_messages(layout, micro_batches, passes);
}

PipelineSchedule forward_schedule(const PipelineLayout& layout, int64_t micro_batches) {
  // Stages take turns as in interleaved 1F1B; those of a folded pipeline would wait for each other.
  const int64_t turn = layout.is_folded ? micro_batches : layout.ranks;
  std::vector<Actions> passes;
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    PassList list(layout, micro_batches, rank);
    for (int64_t first = 0; first < micro_batches; first += turn) {
      for (int64_t index = 0; index < layout.stages_per_rank; ++index) {
        for (int64_t i = 0; i < turn; ++i) list.add(ActionKind::kForward, index);
      }
    }
    passes.push_back(list.take());
  }
  return with_messages(layout, micro_batches, passes);
}

int64_t most_alive(PipelineKind kind, const PipelineLayout& layout, int64_t micro_batches,
                   int64_t rank) {
  const int64_t all = layout.stages_per_rank * micro_batches;
  switch (kind) {
    case PipelineKind::kGpipe:
      return all;
    case PipelineKind::k1F1B:
      return std::min(all, layout.ranks - rank);
    case PipelineKind::kInterleaved1F1B:
      return std::min(all, interleaved_warm_up(layout, rank) + 1);
    case PipelineKind::kZbH1:
      return std::min(all, layout.ranks);
    case PipelineKind::kZbV:
      return std::min(all, 2 * layout.ranks);
  }
  throw std::logic_error("unknown schedule");
}

}  // namespace accel
