#include "parallel/pipeline/simulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/base/text.h"

namespace accel {
namespace {

using Key = std::pair<int64_t, int64_t>;  // stage, micro-batch

/// When results exist on the rank that computes them.
struct Results {
  std::map<Key, double> activations, gradients;
};

class Simulation {
 public:
  Simulation(const PipelineSchedule& schedule, const std::vector<PassCosts>& stages, double message)
      : schedule_(schedule), layout_(schedule.layout), stages_(stages), message_(message) {}

  PipelineTimes run() {
    times_.ranks.resize(schedule_.ranks.size());
    std::vector<size_t> next(schedule_.ranks.size());
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t rank = 0; rank < next.size(); ++rank) {
        const auto& actions = schedule_.ranks[rank];
        for (; next[rank] < actions.size() && advance(rank, actions[next[rank]]); ++next[rank]) {
          moves = true;
        }
      }
    }
    for (size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] < schedule_.ranks[rank].size()) {
        throw std::logic_error("a pipeline schedule has a deadlock");
      }
    }
    return std::move(times_);
  }

 private:
  /// When the input of a pass or message is there; null: not yet.
  std::optional<double> ready(const PipelineAction& action) const {
    const auto time = [](const std::map<Key, double>& results,
                         const Key& key) -> std::optional<double> {
      const auto found = results.find(key);
      return found == results.end() ? std::nullopt : std::optional(found->second);
    };
    const int64_t stage = action.stage, i = action.micro_batch;
    switch (action.kind) {
      case ActionKind::kForward:
        return stage == 0 ? 0 : time(results_.activations, {stage - 1, i});
      case ActionKind::kReceiveActivation:
        return time(results_.activations, {stage - 1, i});
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        return stage + 1 == layout_.stages() ? 0 : time(results_.gradients, {stage + 1, i});
      case ActionKind::kReceiveGradient:
        return time(results_.gradients, {stage + 1, i});
      default:
        return 0;
    }
  }

  double cost(const PipelineAction& pass) const {
    const PassCosts& costs = stages_.at(static_cast<size_t>(pass.stage));
    switch (pass.kind) {
      case ActionKind::kForward:
        return costs.forward;
      case ActionKind::kBackward:
        return costs.backward_input + costs.backward_weight;
      case ActionKind::kBackwardInput:
        return costs.backward_input;
      default:
        return costs.backward_weight;
    }
  }

  bool advance(size_t rank, const PipelineAction& action) {
    const std::optional<double> input = ready(action);
    if (!input) return false;
    if (is_message(action.kind)) return true;
    std::vector<TimedPass>& passes = times_.ranks[rank];
    const bool forward = action.kind == ActionKind::kForward;
    const bool travels =
        forward ? action.stage > 0 && layout_.sends_after(action.stage - 1)
                : action.kind != ActionKind::kBackwardWeight && layout_.sends_after(action.stage);
    const double start =
        std::max(passes.empty() ? 0 : passes.back().end, *input + (travels ? message_ : 0));
    const double end = start + cost(action);
    passes.push_back({action, start, end});
    if (action.kind == ActionKind::kBackwardWeight) return true;
    (forward ? results_.activations : results_.gradients)[{action.stage, action.micro_batch}] = end;
    return true;
  }

  const PipelineSchedule& schedule_;
  const PipelineLayout& layout_;
  const std::vector<PassCosts>& stages_;
  double message_;
  Results results_;
  PipelineTimes times_;
};

double span_of(const std::vector<TimedPass>& passes) {
  return passes.empty() ? 0 : passes.back().end - passes.front().start;
}

/// "F12", of a rank with several stages "F12b".
std::string label_of(const PipelineLayout& layout, const PipelineAction& pass) {
  const char kind = pass.kind == ActionKind::kForward         ? 'F'
                    : pass.kind == ActionKind::kBackward      ? 'B'
                    : pass.kind == ActionKind::kBackwardInput ? 'I'
                                                              : 'W';
  std::string out = kind + std::to_string(pass.micro_batch);
  if (layout.stages_per_rank == 1) return out;
  const bool second = layout.is_folded && pass.stage >= layout.ranks;
  const int64_t index = layout.is_folded ? second : pass.stage / layout.ranks;
  return out + static_cast<char>('a' + index);
}

}  // namespace

double PipelineTimes::makespan() const {
  double end = 0;
  for (const auto& passes : ranks) end = std::max(end, passes.empty() ? 0 : passes.back().end);
  return end;
}

double PipelineTimes::idle(int64_t rank) const {
  const auto& passes = ranks.at(static_cast<size_t>(rank));
  double busy = 0;
  for (const TimedPass& pass : passes) busy += pass.end - pass.start;
  return span_of(passes) - busy;
}

double PipelineTimes::bubble() const {
  double most = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    most = std::max(most, idle(static_cast<int64_t>(rank)));
  }
  return most;
}

double PipelineTimes::bubble_share() const {
  double most = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const double span = span_of(ranks[rank]);
    if (span > 0) most = std::max(most, idle(static_cast<int64_t>(rank)) / span);
  }
  return most;
}

PipelineTimes simulate(const PipelineSchedule& schedule, const std::vector<PassCosts>& stages,
                       double message) {
  return Simulation(schedule, stages, message).run();
}

double bubble_formula(PipelineKind kind, const PipelineLayout& layout, const PassCosts& costs) {
  const auto waits = static_cast<double>(layout.ranks - 1);
  switch (kind) {
    case PipelineKind::kGpipe:
    case PipelineKind::k1F1B:
    case PipelineKind::kInterleaved1F1B:  // the costs are of one of the rank's stages
      return waits * costs.total();
    case PipelineKind::kZbH1:
      return waits * (costs.forward + costs.backward_input - costs.backward_weight);
    case PipelineKind::kZbV:
      return 0;
  }
  throw std::logic_error("unknown schedule");
}

std::vector<std::string> draw_pipeline(const PipelineSchedule& schedule, size_t width) {
  const PipelineLayout& layout = schedule.layout;
  const std::vector<PassCosts> costs(static_cast<size_t>(layout.stages()));
  const PipelineTimes times = simulate(schedule, costs);
  size_t cell = 0;
  for (const auto& passes : times.ranks) {
    for (const TimedPass& pass : passes) {
      cell = std::max(cell, label_of(layout, pass.pass).size() + 1);
    }
  }
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < times.ranks.size(); ++rank) {
    std::string line;
    for (const TimedPass& pass : times.ranks[rank]) {
      line.resize(static_cast<size_t>(std::lround(pass.start)) * cell, ' ');
      line += label_of(layout, pass.pass);
      line.resize(static_cast<size_t>(std::lround(pass.end)) * cell - 1, '-');
      line += ' ';
    }
    while (line.ends_with(' ')) line.pop_back();
    line = text("rank {}  {}", rank, line);
    if (line.size() > width) line = line.substr(0, width - 3) + "...";
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace accel
