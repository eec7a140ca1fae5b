#include "runner/loop/train_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/log.h"
#include "runner/dist/operations.h"
#include "runner/loop/data_use.h"
#include "runner/loop/evaluate.h"
#include "runner/loop/fit_memory.h"
#include "runner/loop/rank_states.h"
#include "runner/loop/report.h"
#include "runner/loop/show.h"
#include "runner/loop/signals.h"
#include "runner/loop/to_batch.h"
#include "runner/loop/train_step.h"

namespace accel {
namespace {

int64_t tokens_of(const Job& job, int64_t samples) {
  return job.length.tokens_per_step > 0 ? samples * job.data.input.back() : 0;
}

/// The step after the last one of an epoch is the first of the next.
void advance(Progress& progress, const Window& window, const Job& job) {
  ++progress.step;
  progress.samples += window.samples;
  progress.tokens += tokens_of(job, window.samples);
  progress.epoch = window.epoch;
  progress.step_in_epoch = window.step + 1;
  if (progress.step_in_epoch == job.train_loader->steps_per_epoch()) {
    ++progress.epoch;
    progress.step_in_epoch = 0;
  }
}

}  // namespace

TrainLoop::TrainLoop(const LoopParts& parts, RunState state, std::string checkpoint)
    : parts_(parts),
      state_(std::move(state)),
      log_due_(parts.job.recipe.log.every, parts.job.length),
      histograms_due_(parts.job.recipe.log.histograms, parts.job.length),
      eval_due_(parts.job.recipe.eval.every, parts.job.length),
      save_due_(parts.job.recipe.checkpoint.every, parts.job.length),
      bar_(parts.job.length.total_steps),
      seconds_before_(state_.seconds),
      first_step_(state_.progress.step),
      saved_step_(checkpoint.empty() ? -1 : first_step_),
      profile_(parts.job.recipe.profile, parts.run_dir, parts.job.group->rank(), parts.job.device),
      deadline_(parts.job.recipe.checkpoint.deadline),
      saving_(parts.job, parts.store, parts.record, std::move(checkpoint)),
      steering_(parts.job, parts.record, parts.run_dir, first_step_, parts.saves) {
  if (parts.job.recipe.log.system) system_.emplace(parts.run_dir);
}

void TrainLoop::check_space(int64_t more) {
  if (!parts_.saves) return;
  TrainState state = capture(parts_.job, state_, parts_.trackers.ids());
  add_own_state_for_all(parts_.job, state);
  state.other_rngs.resize(static_cast<size_t>(parts_.job.group->world()) - 1);
  saving_.check_space(state, more);
}

double TrainLoop::training_seconds() const {
  return watch_.total() - watch_.seconds(Phase::kEval) - watch_.seconds(Phase::kSave);
}

bool TrainLoop::finished() {
  const Job& job = parts_.job;
  if (job.length.total_steps > 0 && state_.progress.step >= job.length.total_steps) return true;
  for (const Duration& until : job.recipe.train.until) {
    if (until.unit == Duration::Unit::kSeconds && state_.seconds >= until.value) {
      stop_reason_ = "reached " + to_string(until);
      return true;
    }
  }
  for (const auto& callback : job.callbacks) {
    if (const auto reason = callback->stop()) {
      stop_reason_ = *reason;
      return true;
    }
  }
  return false;
}

bool TrainLoop::must_stop() const {
  return SignalWatch::received() != 0 || deadline_.near(slowest_step_, saving_.slowest_seconds());
}

bool TrainLoop::any_must_stop() {
  return any_rank(*parts_.job.group, must_stop(), "whether to stop");
}

bool TrainLoop::steer() {
  SteeringActions actions;
  actions.save = [this] { return save_now(); };
  actions.evaluate = [this] {
    const bool saved = saved_step_ == state_.progress.step;
    if (state_.evaluated_step != state_.progress.step) evaluate_now();
    if (saved && saved_step_ == state_.progress.step) save();  // a resume is not to do it again
  };
  actions.changed = [this](const std::string& key) { changed(key); };
  actions.any_must_stop = [this] { return any_must_stop(); };
  const bool told = steering_.obey(state_.progress.step, actions);
  if (told) stop_reason_ = "ctl said";
  ordered_ = ordered_ || told;
  watch_.lap(Phase::kOther);
  return any_must_stop() || told;
}

std::string TrainLoop::save_now() {
  if (saved_step_ != state_.progress.step) save();
  saving_.finish();
  return "saved after step " + std::to_string(state_.progress.step);
}

void TrainLoop::changed(const std::string& key) {
  const auto renew = [&](const char* option, Trigger& trigger, const Durations& every) {
    if (key != option) return;
    trigger = Trigger(every, parts_.job.length);
    trigger.due(state_.progress.step, clock());  // times count from now on
  };
  const RecipeOptions& recipe = parts_.job.recipe;
  renew("log.every", log_due_, recipe.log.every);
  renew("eval.every", eval_due_, recipe.eval.every);
  renew("checkpoint.every", save_due_, recipe.checkpoint.every);
}

double TrainLoop::clock() const {
  return parts_.job.group->world() == 1 ? watch_.total() : clock_;
}

LoopEnd TrainLoop::run(std::optional<int64_t> stop_after) {
  watch_.lap(Phase::kOther);
  check_space(parts_.job.optimizer->bytes_to_come());
  parts_.job.optimizer->reserve();
  const bool first = parts_.job.recipe.eval.at_start && state_.progress.step == 0;
  if (!parts_.job.eval_loader) state_.eval_pending = false;  // the recipe has lost its eval data
  if (parts_.job.eval_loader && (first || state_.eval_pending)) evaluate_now();
  const bool told = any_rank(*parts_.job.group, steering_.waiting(first_step_), "whether to steer");
  bool interrupted =
      (told && steer()) || any_must_stop() || (stop_after && state_.progress.step >= *stop_after);
  while (!finished() && !interrupted) {
    step();
    after_step();
    // Alone, a process need not wait for the next step to agree with others. Those have agreed
    // already when they gave up an evaluation.
    const int64_t now = state_.progress.step;
    const bool asked =
        parts_.job.group->world() == 1 ? must_stop() || steering_.waiting(now) : asked_;
    interrupted = (asked && steer()) || state_.eval_pending || (stop_after && now >= *stop_after);
  }
  interrupted = interrupted && !finished();
  if (!interrupted) {
    if (interval_.steps > 0) log_interval();
    if (parts_.job.eval_loader && state_.evaluated_step != state_.progress.step) evaluate_now();
  }
  interrupted = interrupted || state_.eval_pending;
  if (interrupted && SignalWatch::received() == 0 && must_stop()) {
    stop_reason_ = "its deadline is near";
  }
  const bool wanted = interrupted || parts_.job.recipe.checkpoint.at_end;
  if (wanted && saved_step_ != state_.progress.step && state_.progress.step > 0) save();
  saving_.finish();
  watch_.lap(Phase::kSave);
  profile_.finish();
  if (!interrupted) profile_.tell_missed(state_.progress.step);
  record_use();
  parts_.record.flush();
  if (!interrupted) return LoopEnd::kFinished;
  return ordered_ && SignalWatch::received() == 0 ? LoopEnd::kStopped : LoopEnd::kInterrupted;
}

void TrainLoop::step() {
  Job& job = parts_.job;
  const double started = watch_.total();
  job.watch->step(state_.progress.step + 1);
  job.watch->phase("data");
  profile_.before(state_.progress.step + 1);
  lrs_.clear();
  for (const double base : job.optimizer->base_rates()) {
    lrs_.push_back(job.schedule->lr(base, state_.updates));
  }
  job.optimizer->set_lrs(lrs_);
  Window window = job.train_loader->next(std::move(spent_));
  if (state_.progress.step == 0) show_images(parts_, window);
  watch_.lap(Phase::kData);
  job.watch->phase("training");
  const double before = busy_;
  busy_ = watch_.busy();
  const StepAsk ask{.step = state_.progress.step + 1,
                    .stop = must_stop() || steering_.waiting(state_.progress.step + 1),
                    .seconds = watch_.total(),
                    .computed = busy_ - before};
  const StepResult result = make_step(window, ask);
  if (const auto line = stragglers_.add(result.computed)) {
    say(*line);
    if (stragglers_.is_news()) parts_.record.event(ask.step, "slow", *line);
  }
  asked_ = result.stop;
  clock_ = result.seconds;
  advance(state_.progress, window, job);
  profile_.after(state_.progress.step);
  state_.updates += result.updated;
  state_.last_loss = result.loss;
  interval_.add(result, window.samples, tokens_of(job, window.samples));
  StepRecord record;
  record.step = state_.progress.step;
  record.epoch = window.epoch;
  record.samples = state_.progress.samples;
  record.loss = result.loss;
  record.lr = lrs_.front();
  record.ids_digest = window.digest;
  record.skipped = !result.updated;
  if (result.updated) record.grad_norm = result.grad_norm;
  parts_.record.step(record);
  spent_ = std::move(window);
  slowest_step_ = std::max(slowest_step_, watch_.total() - started);
}

StepResult TrainLoop::make_step(Window& window, StepAsk ask) {
  Job& job = parts_.job;
  const auto settle = [this] { saving_.settle(); };
  const TrainSection& train = job.recipe.train;
  ask.careful =
      steps_done() == 0 && !train.micro_batch && !train.gradient_accumulation_steps &&
      !job.recipe.accelerator.sync_batch_norm;  // a pass that ends early leaves others waiting
  if (!ask.careful) return train_step(job, window, ask, watch_, settle);
  const BeforeStep before(job);
  while (true) {
    try {
      return train_step(job, window, ask, watch_, settle);
    } catch (const OutOfMemory& error) {
      const int64_t smaller = smaller_micro_batch(job.batches);
      if (smaller == 0) throw;
      say(std::string(error.what()) + ": going on with micro-batches of " +
          std::to_string(smaller));
      before.restore(job);
      set_micro_batch(job, smaller);
      job.train_loader->seek(window.epoch, window.step);
      window = job.train_loader->next();
    }
  }
}

void TrainLoop::after_step() {
  const int64_t step = state_.progress.step;
  saving_.settle();
  saving_.poll();
  // All of the optimizer's state is there now: the size of a checkpoint is known.
  if (steps_done() == 1) {
    check_space(0);
    const auto taken = parts_.plan ? parts_.plan->look(parts_.job, step, 1, watch_) : std::nullopt;
    if (taken) say("planned and actual: " + *taken);
  }
  for (const auto& callback : parts_.job.callbacks) callback->on_step(step);
  show_texts(parts_, state_.progress.step);
  watch_.lap(Phase::kOther);
  state_.seconds = seconds_before_ + clock();
  bar_.update(step, state_.last_loss,
              interval_.steps
                  ? (training_seconds() - interval_.seconds) / static_cast<double>(interval_.steps)
                  : 0);
  // The last step's evaluation comes before its save, which then knows of it.
  const bool last = finished();
  if (log_due_.due(step, clock()) || last) log_interval();
  if (histograms_due_.due(step, clock())) show_histograms(parts_, step);
  if (parts_.job.eval_loader && (eval_due_.due(step, clock()) || last)) evaluate_now();
  const bool evaluated = state_.evaluated_step == step;
  if (evaluated || last || state_.progress.step_in_epoch == 0)
    tell_data_use(parts_, state_.progress);
  if (save_due_.due(step, clock()) && saved_step_ != step) save();
}

void TrainLoop::log_interval() {
  const Job& job = parts_.job;
  const double lr = job.schedule->lr(job.optimizer->base_lrs().front(), state_.updates);
  std::vector<Measurement> values =
      interval_.measured({lr, epochs_done(job, state_.progress), training_seconds()});
  if (job.precision->loss_scale() != 1) {
    values.emplace_back("train/loss_scale", job.precision->loss_scale());
  }
  say(log_line(job, state_.progress, values));
  if (system_) {
    for (Measurement& value : system_->measure()) values.push_back(std::move(value));
  }
  parts_.trackers.log(state_.progress.step, values);
  parts_.record.log(state_.progress.step, values);
  record_use();
  parts_.record.flush();
  interval_ = {};
  interval_.seconds = training_seconds();
}

void TrainLoop::record_use() {
  if (!parts_.saves) return;
  std::vector<std::pair<std::string, double>> phases = watch_.phases();
  std::vector<Measurement> values;
  for (size_t i = 0; i < phases.size(); ++i) {
    const double seconds = phases[i].second - (told_.empty() ? 0 : told_[i].second);
    constexpr double kMicroseconds = 1e6;  // of more digits, the record would only grow
    values.emplace_back("time/" + phases[i].first,
                        std::round(seconds * kMicroseconds) / kMicroseconds);
  }
  told_ = std::move(phases);
  if (const auto memory = resident_mib()) {
    values.emplace_back("memory_mib", std::round(*memory * 10) / 10);
  }
  parts_.record.use(state_.progress.step, values);
}

void TrainLoop::evaluate_now() {
  Job& job = parts_.job;
  job.watch->phase("evaluation");
  watch_.lap(Phase::kOther);
  saving_.settle();  // callbacks may put other weights into the model
  watch_.lap(Phase::kSave);
  auto results = evaluate(job, [this] { return any_must_stop(); });
  if (state_.eval_pending || !results) saved_step_ = -1;  // what was saved is not this state
  state_.eval_pending = !results;
  watch_.lap(Phase::kEval);
  if (!results) return;
  state_.evaluation = std::move(*results);
  state_.evaluated_step = state_.progress.step;
  const std::vector<Measurement> values(state_.evaluation.begin(), state_.evaluation.end());
  say(eval_line(state_.progress, values));
  parts_.trackers.log(state_.progress.step, values);
  parts_.record.evaluation(state_.progress.step, values);
  for (const auto& callback : job.callbacks) {
    callback->on_eval(state_.progress.step, state_.evaluation);
  }
  show_texts(parts_, state_.progress.step);
  job.schedule->observe(state_.evaluation);
  const bool improved = update_best(state_.evaluation);
  watch_.lap(Phase::kEval);
  if (improved && job.recipe.checkpoint.keep.best > 0 && state_.progress.step > 0) save();
}

bool TrainLoop::update_best(const std::map<std::string, double>& results) {
  const auto found = results.find(parts_.job.recipe.checkpoint.keep.by);
  if (found == results.end()) return false;
  const bool more = more_is_better(parts_.job);
  if (state_.best && (more ? found->second <= *state_.best : found->second >= *state_.best)) {
    return false;
  }
  state_.best = found->second;
  state_.best_step = state_.progress.step;
  return true;
}

void TrainLoop::save() {
  parts_.job.watch->phase("saving");
  watch_.lap(Phase::kOther);
  const SaveStall stall = saving_.stall();
  parts_.trackers.settle();
  TrainState state = capture(parts_.job, state_, parts_.trackers.ids());
  state.model = model_of_all_ranks(parts_.job);
  add_rank_states(parts_.job, state);
  const at::Tensor generators = parts_.job.group->all_gather(state.rng, "generators");
  if (!state.device_rngs.empty()) {
    const at::Tensor& own = state.device_rngs.front();
    state.device_rngs = parts_.job.group->all_gather(own, "generators of devices").unbind();
  }
  if (!parts_.saves) {
    saved_step_ = state_.progress.step;
    return;
  }
  for (int64_t rank = 1; rank < parts_.job.group->world(); ++rank) {
    state.other_rngs.push_back(generators.select(0, rank).clone());
  }
  // The forward pass changes buffers, such as running statistics, before settle() is called.
  for (auto item = state.model.begin() + static_cast<ptrdiff_t>(parts_.job.parameters.size());
       item != state.model.end(); ++item) {
    item->tensor = item->tensor.detach().clone();
  }
  saving_.save(std::move(state));
  saved_step_ = state_.progress.step;
  watch_.lap(Phase::kSave);
}

}  // namespace accel
