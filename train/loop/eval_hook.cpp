#include "train/loop/eval_hook.h"

#include <cmath>
#include <utility>

#include "core/base/log.h"
#include "train/loop/data_use.h"
#include "train/loop/evaluate.h"
#include "train/loop/loader_seeds.h"
#include "train/loop/report.h"

namespace accel {

EvalHook::EvalHook(LoopProgress progress, LogHook& log, SaveHook& save, MustStop must_stop)
    : context_(progress.context),
      state_(progress.state),
      watch_(progress.watch),
      settle_(progress.settle),
      log_(log),
      save_(save),
      must_stop_(std::move(must_stop)),
      due_(context_.job.recipe.eval.every, context_.job.length) {}

void EvalHook::on_start() {
  const Job& job = context_.job;
  const bool first = job.recipe.eval.at_start && state_.progress.step == 0;
  if (!job.eval_loader) state_.eval_pending = false;  // the eval data was removed from the recipe
  const bool pending = state_.eval_pending;
  if (job.eval_loader && first && !pending) draw_evaluation_seed(job);
  if (job.eval_loader && (first || pending)) run();
  // A process that is killed before its first checkpoint must not leave the evaluation to the next.
  if (!pending || state_.eval_pending) return;
  log_data_use(context_, state_.progress);
  save_best();
  if (!save_.is_saved()) save_.save();
}

void EvalHook::after_step(double seconds, bool last) {
  const bool due = due_.due(state_.progress.step, seconds);
  if (context_.job.eval_loader && due) draw_evaluation_seed(context_.job);
  if (context_.job.eval_loader && (due || last)) run();
  if (state_.eval_pending) return;  // the next process logs it, after the evaluation
  const bool evaluated = state_.evaluated_step == state_.progress.step;
  if (evaluated || last || state_.progress.step_in_epoch == 0) {
    settle_();
    log_data_use(context_, state_.progress);
  }
  save_best();
}

void EvalHook::evaluate_once() {
  if (context_.job.eval_loader && state_.evaluated_step != state_.progress.step) run();
  save_best();
}

void EvalHook::evaluate_now() {
  const bool saved = save_.is_saved();
  if (state_.evaluated_step != state_.progress.step) run();
  save_best();
  if (saved && save_.is_saved()) save_.save();  // so that a resume does not evaluate again
}

PauseCost EvalHook::cost_left(double seconds) const {
  const int64_t step = state_.progress.step, total = context_.job.length.total_steps;
  if (finished_ == 0 || step >= total) return {};
  // The last step is always evaluated.
  const double count = std::floor(due_.times(step, total - 1, seconds)) + 1;
  return {count, watch_.seconds(Phase::kEval) / static_cast<double>(finished_)};
}

void EvalHook::set_period(double seconds) {
  due_.change(context_.job.recipe.eval.every, context_.job.length, state_.progress.step, seconds);
}

void EvalHook::run() {
  settle_();
  Job& job = context_.job;
  job.watch->phase("evaluation");
  watch_.lap(Phase::kOther);
  save_.checkpointer().wait_for_snapshot();  // callbacks may swap weights into the model
  watch_.lap(Phase::kSave);
  auto results = evaluate(job, must_stop_);
  if (state_.eval_pending || !results) save_.invalidate();
  state_.eval_pending = !results;
  watch_.lap(Phase::kEval);
  if (!results) return;
  ++finished_;
  state_.evaluation = std::move(*results);
  state_.evaluated_step = state_.progress.step;
  const std::vector<Measurement> values(state_.evaluation.begin(), state_.evaluation.end());
  context_.check_folder();
  say(eval_line(state_.progress, values));
  context_.trackers.log(state_.progress.step, values);
  context_.record.evaluation(state_.progress.step, values);
  for (const auto& callback : job.callbacks) {
    callback->on_eval(state_.progress.step, state_.evaluation);
  }
  log_.log_texts();
  job.schedule->observe(state_.evaluation);
  improved_ = update_best();
  watch_.lap(Phase::kEval);
}

void EvalHook::save_best() {
  const bool keeps = context_.job.recipe.checkpoint.keep.best > 0 && state_.progress.step > 0;
  if (std::exchange(improved_, false) && keeps) save_.save();
}

bool EvalHook::update_best() {
  const auto found = state_.evaluation.find(context_.job.recipe.checkpoint.keep.metric);
  if (found == state_.evaluation.end() || std::isnan(found->second)) return false;
  const bool more = more_is_better(context_.job);
  const bool has_best = state_.best && !std::isnan(*state_.best);
  if (has_best && (more ? found->second <= *state_.best : found->second >= *state_.best)) {
    return false;
  }
  state_.best = found->second;
  state_.best_step = state_.progress.step;
  return true;
}

}  // namespace accel
