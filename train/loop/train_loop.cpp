#include "train/loop/train_loop.h"

#include <utility>

#include "core/base/library_pages.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "kernels/memory/caching_allocator.h"
#include "train/job/library_errors.h"
#include "train/loop/loader_seeds.h"
#include "train/loop/shards.h"
#include "train/step/pass_snapshot.h"

namespace accel {
namespace {

/// After the last step of an epoch, progress is at step 0 of the next.
void advance(Progress& progress, const GlobalBatch& global_batch, const Job& job) {
  ++progress.step;
  progress.samples += global_batch.samples;
  progress.tokens += tokens_of(job, global_batch.samples);
  progress.epoch = global_batch.epoch;
  progress.step_in_epoch = global_batch.step + 1;
  if (progress.step_in_epoch == job.train_loader->steps_per_epoch()) {
    ++progress.epoch;
    progress.step_in_epoch = 0;
  }
}

/// For `train.micro_batch: auto`: the next smaller size that divides a rank's share of the batch,
/// at most nine tenths as in Accelerate's find_executable_batch_size; 0 when there is none.
int64_t smaller_micro_batch(const BatchPlan& plan) {
  const int64_t share = plan.batch / plan.world;
  for (int64_t size = plan.micro_batch * 9 / 10; size > 0; --size) {
    if (share % size == 0) return size;
  }
  return 0;
}

/// Changes the micro-batch size; the batch stays. Seek the loader afterwards. Memory freed by the
/// old size is returned to the system.
void set_micro_batch(Job& job, int64_t samples) {
  job.batches.micro_batch = samples;
  job.batches.accumulation = job.batches.batch / (samples * job.batches.world);
  job.train_loader->set_micro_batch(samples);
  give_back_freed_memory();
}

}  // namespace

TrainLoop::TrainLoop(const LoopContext& context, RunState state, const std::string& checkpoint)
    : context_(context),
      state_(std::move(state)),
      readback_(StepReadback::make(context.job)),
      log_({context_, state_, watch_, settle_}),
      save_({context_, state_, watch_, settle_}, checkpoint),
      control_({context_, state_, watch_, settle_}, save_.checkpointer()),
      eval_({context_, state_, watch_, settle_}, log_, save_,
            [this] { return control_.any_must_stop(); }),
      completions_(context_, state_.progress.step),
      profile_(context.job.recipe.profile, context.run_dir, context.job.rank, context.job.device),
      progress_({context_, state_, watch_, settle_}),
      seconds_before_(state_.seconds),
      first_step_(state_.progress.step) {}

LoopEnd TrainLoop::run(std::optional<int64_t> stop_after) {
  try {
    return run_steps(stop_after);
  } catch (const std::exception&) {
    settle_before_error();
    throw;
  }
}

LoopEnd TrainLoop::run_steps(std::optional<int64_t> stop_after) {
  const auto reached = [&] { return stop_after && state_.progress.step >= *stop_after; };
  bool interrupted = on_start() || reached();
  while (!control_.is_finished() && !interrupted) {
    try {
      step();
    } catch (const std::exception& error) {
      check_step_error(context_.job, state_.progress.step + 1, error);
      throw;
    }
    after_step();
    interrupted = is_interrupted() || reached();
  }
  return on_end(interrupted && !control_.is_finished());
}

bool TrainLoop::on_start() {
  watch_.lap(Phase::kOther);
  save_.rotate();
  save_.check_shared_folder();
  save_.check_space(pending_bytes_of_all_ranks(context_.job));
  preallocate_optimizer();
  eval_.on_start();
  // Of building and planning the job.
  give_back_freed_memory();
  release_library_pages(LibraryPages::kReadOnly);
  const bool waiting = control_.any_command(first_step_);
  return (waiting && apply_commands()) || control_.any_must_stop();
}

void TrainLoop::preallocate_optimizer() {
  Job& job = context_.job;
  try {
    job.optimizer->preallocate_state();
  } catch (const std::exception& error) {
    check_size_failure(error, "the state of the optimizer '" + job.recipe.optimizer.type + "'",
                       job.resolved, "model");
    throw;
  }
}

void TrainLoop::step() {
  Job& job = context_.job;
  const double started = watch_.total();
  job.watch->step(state_.progress.step + 1);
  job.watch->phase("data");
  profile_.before(state_.progress.step + 1);
  set_lrs();
  if (state_.progress.step_in_epoch == 0) draw_epoch_seeds(job, state_);
  GlobalBatch global_batch = job.train_loader->next(std::move(recycled_batch_));
  if (state_.progress.step == 0) log_.log_images(global_batch);
  watch_.lap(Phase::kData);
  job.watch->phase("training");
  StepResult result = make_step(global_batch, header());
  settle();  // the step before, while this one is computed
  stop_or_command_pending_ = result.stop;
  all_shards_written_ = result.all_saved;
  clock_ = result.seconds;
  advance(state_.progress, global_batch, job);
  state_.updates += result.updated;
  profile_.after(state_.progress.step);
  if (result.pending) {
    pending_ = PendingStep{std::move(global_batch), std::move(result), lrs_.front()};
  } else {
    record_step(global_batch, result, lrs_.front());
    recycled_batch_ = std::move(global_batch);
  }
  control_.add_step(watch_.total() - started);
}

void TrainLoop::settle() {
  if (!pending_) return;
  PendingStep last = *std::exchange(pending_, std::nullopt);
  const StepNumbers numbers = readback_->read();
  watch_.lap(Phase::kSync);
  if (readback_->diverged()) {
    // The message names a gradient, but they are gone: the step is repeated, and throws.
    train_step(context_.job, last.global_batch,
               {.step = state_.progress.step, .readback = readback_.get()}, watch_);
  }
  last.result.loss = numbers.loss;
  last.result.grad_norm = numbers.grad_norm;
  record_step(last.global_batch, last.result, last.lr);
  recycled_batch_ = std::move(last.global_batch);
}

void TrainLoop::settle_before_error() {
  try {
    settle();
  } catch (const DivergedError&) {
    throw;
  } catch (const std::exception&) {
    // Of the device, which has failed.
  }
}

void TrainLoop::record_step(const GlobalBatch& global_batch, const StepResult& result, double lr) {
  state_.last_loss = result.loss;
  log_.add_step(global_batch, result, lr);
}

void TrainLoop::set_lrs() {
  const Job& job = context_.job;
  lrs_.clear();
  for (const double base : job.optimizer->base_rates()) {
    lrs_.push_back(job.schedule->lr(base, state_.updates));
  }
  job.optimizer->set_lrs(lrs_);
}

StepHeader TrainLoop::header() {
  const TrainSection& train = context_.job.recipe.train;
  const bool auto_micro_batch = !train.micro_batch && !train.gradient_accumulation_steps;
  const double before = std::exchange(busy_, watch_.busy());
  const int64_t next = state_.progress.step + 1;
  const ParallelismSection& axes = context_.job.recipe.accelerator.parallelism;
  return {.step = next,
          .stop = control_.is_pending(next),
          .seconds = watch_.total(),
          .computed = busy_ - before,
          .saved = save_.checkpointer().has_written_shards(),
          .is_first = steps_done() == 0,
          // A pass that fails early would leave the other ranks of a synchronized batch norm or of
          // tensor, expert or context parallelism.
          .careful = steps_done() == 0 && auto_micro_batch &&
                     !context_.job.recipe.accelerator.sync_batch_norm &&
                     !context_.job.tensor_ranks && !context_.job.expert_ranks &&
                     axes.cp * axes.sp == 1,
          .readback = readback_.get()};
}

StepResult TrainLoop::make_step(GlobalBatch& global_batch, StepHeader header) {
  Job& job = context_.job;
  const auto wait_for_snapshot = [this] { save_.checkpointer().wait_for_snapshot(); };
  if (!header.careful) return train_step(job, global_batch, header, watch_, wait_for_snapshot);
  const PassSnapshot snapshot(job);
  header.readback = nullptr;
  while (true) {
    try {
      return train_step(job, global_batch, header, watch_, wait_for_snapshot);
    } catch (const OutOfMemory& error) {
      const int64_t smaller = smaller_micro_batch(job.batches);
      if (smaller == 0) throw;
      say(text("{}: retrying with micro-batches of {}", error.what(), smaller));
      snapshot.restore(job);
      set_micro_batch(job, smaller);
      job.train_loader->seek(global_batch.epoch, global_batch.step);
      global_batch = job.train_loader->next();
    }
  }
}

void TrainLoop::after_step() {
  save_.checkpointer().wait_for_snapshot();
  if (save_.checkpointer().is_writing_shards() && all_shards_written_) {
    save_.checkpointer().commit_shards();
  }
  save_.checkpointer().poll();
  if (steps_done() == 1) after_first_step();
  for (const auto& callback : context_.job.callbacks) callback->on_step(state_.progress.step);
  log_.log_texts();
  completions_.after_step();
  watch_.lap(Phase::kOther);
  state_.seconds = seconds_before_ + clock();
  // The last step is evaluated before it is saved, so that the checkpoint has the results.
  const bool last = control_.is_finished();
  progress_.after_step();
  log_.after_step(clock(), last);
  show_progress();
  report_progress();
  eval_.after_step(clock(), last);
  save_.after_step(clock());
}

void TrainLoop::show_progress() {
  if (!progress_.is_due()) return;
  const double seconds = progress_.steps_left_seconds();
  progress_.show(eval_.cost_left(seconds), save_.cost_left(seconds));
}

void TrainLoop::report_progress() {
  constexpr double kPeriod = 5;
  if (!context_.trackers.reports_progress() || watch_.total() < next_report_) return;
  next_report_ = watch_.total() + kPeriod;
  const double seconds = progress_.steps_left_seconds();
  context_.trackers.progress(
      progress_.progress(eval_.cost_left(seconds), save_.cost_left(seconds)));
}

void TrainLoop::after_first_step() {
  settle();
  release_library_pages(LibraryPages::kReadOnly);  // of the first call of each operator
  save_.check_space(0);
  if (!context_.plan) return;
  const auto taken = context_.plan->look(context_.job, state_.progress.step, 1, watch_);
  if (taken) say("planned and actual: " + *taken);
}

bool TrainLoop::is_interrupted() {
  // One process need not wait for the next step to agree with others. Several have agreed already
  // when they gave up an evaluation.
  const bool pending = context_.job.num_ranks == 1 ? control_.is_pending(state_.progress.step)
                                                   : stop_or_command_pending_;
  return (pending && apply_commands()) || state_.eval_pending;
}

bool TrainLoop::apply_commands() {
  settle();
  RunControlActions actions;
  actions.save = [this] { return save_.save_now(); };
  actions.evaluate = [this] { eval_.evaluate_now(); };
  actions.changed = [this](const std::string& key) {
    if (key == "log.every") log_.set_period(clock());
    if (key == "eval.every") eval_.set_period(clock());
    if (key == "checkpoint.every") save_.set_period(clock());
  };
  actions.any_must_stop = [this] { return control_.any_must_stop(); };
  const bool ends = control_.apply(actions);
  watch_.lap(Phase::kOther);
  return ends;
}

LoopEnd TrainLoop::on_end(bool interrupted) {
  settle();
  context_.check_folder();
  if (!interrupted) {
    log_.log_rest();
    eval_.evaluate_once();
  }
  interrupted = interrupted || state_.eval_pending;
  if (interrupted) control_.note_reason();
  progress_.finish();
  finish_saves(interrupted || context_.job.recipe.checkpoint.at_end);
  watch_.lap(Phase::kSave);
  profile_.finish();
  if (!interrupted) profile_.warn_if_missed(state_.progress.step);
  log_.record_use();
  context_.record.flush();
  if (!interrupted) return LoopEnd::kFinished;
  return control_.is_stopped_by_command() ? LoopEnd::kStopped : LoopEnd::kInterrupted;
}

void TrainLoop::finish_saves(bool save) {
  const Activity shown("saving the checkpoint");
  if (save && !save_.is_saved() && state_.progress.step > 0) save_.save();
  save_.checkpointer().finish();
}

double TrainLoop::clock() const {
  return context_.job.num_ranks == 1 ? watch_.total() : clock_;
}

}  // namespace accel
