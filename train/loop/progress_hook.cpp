#include "train/loop/progress_hook.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "train/loop/report.h"

namespace accel {

void StepRate::add(double seconds) {
  if (steps_ == 1) recent_.clear();
  const size_t place = steps_++ % kMostSteps;
  if (recent_.size() < kMostSteps) {
    recent_.push_back(seconds);
  } else {
    recent_[place] = seconds;
  }
}

double StepRate::seconds_per_step() const {
  if (recent_.empty()) return 0;
  std::vector<double> sorted = recent_;
  std::sort(sorted.begin(), sorted.end());
  const auto cut = static_cast<ptrdiff_t>(sorted.size() / 10);
  const double sum = std::accumulate(sorted.begin() + cut, sorted.end() - cut, 0.0);
  return sum / static_cast<double>(sorted.size() - 2 * static_cast<size_t>(cut));
}

ProgressHook::ProgressHook(LoopProgress progress)
    : context_(progress.context), state_(progress.state), watch_(progress.watch), shown_("") {}

double ProgressHook::training_seconds() const {
  return watch_.total() - watch_.seconds(Phase::kEval) - watch_.seconds(Phase::kSave);
}

void ProgressHook::after_step() {
  const double now = training_seconds();
  rate_.add(now - std::exchange(last_, now));
}

double ProgressHook::steps_left_seconds() const {
  const int64_t total = context_.job.length.total_steps;
  if (total <= state_.progress.step) return 0;
  return rate_.seconds_per_step() * static_cast<double>(total - state_.progress.step);
}

RunProgress ProgressHook::progress(PauseCost evaluations, PauseCost saves) const {
  const int64_t total = context_.job.length.total_steps;
  if (total == 0) return {};
  return {static_cast<double>(state_.progress.step) / static_cast<double>(total),
          steps_left_seconds() + evaluations.count * evaluations.each + saves.count * saves.each};
}

void ProgressHook::show(PauseCost evaluations, PauseCost saves) {
  if (!is_due()) return;
  const ScheduleContext& length = context_.job.length;
  TaskProgress task{.done = state_.progress.step, .total = length.total_steps};
  if (task.total == 0) task.unit = "steps";
  task.detail = "loss " + rounded(state_.last_loss);
  const double each = rate_.seconds_per_step();
  if (each > 0) {
    task.rates = {rate_text(1 / each, "step")};
    const bool tokens = length.tokens_per_step > 0;
    const int64_t amount = tokens ? length.tokens_per_step : length.samples_per_step;
    task.rates.push_back(
        rate_text(static_cast<double>(amount) / each, tokens ? "token" : "sample"));
    if (task.total > 0) task.left = progress(evaluations, saves).seconds_left;
  }
  task.elapsed = watch_.total();
  shown_->show(std::move(task));
}

}  // namespace accel
