#include "train/loop/save_hook.h"

#include <cmath>
#include <utility>

#include "checkpoint/stored_layout.h"
#include "checkpoint/writer.h"
#include "core/base/text.h"
#include "train/job/torch_setup.h"
#include "train/loop/module_layout.h"
#include "train/loop/rank_states.h"
#include "train/loop/shards.h"

namespace accel {
namespace {

/// Adds the random generator states of the other ranks with different samples; those with the same
/// share one stream.
void gather_generators(const Job& job, TrainState& state) {
  const std::vector<at::Tensor> generators = gather_generator_states(*job.mesh.data);
  state.other_rngs.assign(generators.begin() + 1, generators.end());
  if (state.device_rngs.empty()) return;
  at::Tensor& own = state.device_rngs.front();
  // Ranks with one random stream read the row of their GPU index.
  const ParallelismSection& axes = job.recipe.accelerator.parallelism;
  const bool shares_stream = job.tensor_ranks || axes.cp * axes.sp > 1;
  if (shares_stream) own = own[job.device.index()].expand(own.sizes()).contiguous();
  state.device_rngs = job.mesh.data->all_gather(own, "generators of devices").unbind();
}

/// Complete on rank 0 only, unless each rank writes shards; all ranks call it. Parameters and
/// optimizer state share memory with the job: copy or write them before the next step. Buffers are
/// copies, since the next forward pass changes them.
TrainState gather_train_state(const Job& job, const RunState& run, const TrackerIds& trackers) {
  TrainState state = capture(job, run, trackers);
  state.model = model_of_all_ranks(job);
  if (saves_shards(job)) {
    state.shards = shard_layout(job, state.optimizer);
  } else {
    gather_shards(job, state);
  }
  add_rank_states(job, state);
  gather_generators(job, state);
  if (!job.is_main) return state;
  for (size_t i = job.parameters.size(); i < state.model.size(); ++i) {
    state.model[i].local = state.model[i].local.detach().clone();
  }
  if (state.shards) return state;
  state.layout = written_layout(job);
  if (state.layout) to_stored(*state.layout, state);
  return state;
}

/// A state of the size of gather_train_state() on rank 0, without communication: for size checks.
TrainState estimate_train_state(const Job& job, const RunState& run, const TrackerIds& trackers) {
  TrainState state = capture(job, run, trackers);
  add_own_state_for_all(job, state);
  state.other_rngs.resize(static_cast<size_t>(job.batches.world) - 1);
  return state;
}

}  // namespace

SaveHook::SaveHook(LoopProgress progress, const std::string& checkpoint)
    : context_(progress.context),
      state_(progress.state),
      watch_(progress.watch),
      settle_(progress.settle),
      due_(context_.job.recipe.checkpoint.every, context_.job.length),
      checkpointer_(context_.job, context_.store, context_.record, checkpoint),
      saved_step_(checkpoint.empty() ? -1 : state_.progress.step) {}

void SaveHook::save() {
  settle_();
  context_.check_folder();
  context_.job.watch->phase("saving");
  watch_.lap(Phase::kOther);
  const StallTimer stall = checkpointer_.stall();
  context_.trackers.drain();
  TrainState state = gather_train_state(context_.job, state_, context_.trackers.ids());
  if (state.shards) {
    const int64_t bytes = checkpoint_bytes(state) + bytes_of_other_shards(context_.job, state);
    keep_written(state);
    checkpointer_.save_shards(std::move(state), bytes);
  } else if (context_.saves) {
    checkpointer_.save(std::move(state));
  }
  saved_step_ = state_.progress.step;
  ++saves_;
  watch_.lap(Phase::kSave);
}

std::string SaveHook::save_now() {
  if (!is_saved()) save();
  checkpointer_.finish();
  return text("saved after step {}", state_.progress.step);
}

void SaveHook::after_step(double seconds) {
  if (due_.due(state_.progress.step, seconds) && !is_saved()) save();
}

void SaveHook::rotate() {
  if (context_.saves && state_.progress.step > 0) checkpointer_.rotate(state_.progress.step);
}

void SaveHook::check_shared_folder() {
  const Job& job = context_.job;
  if (saves_shards(job) && job.num_ranks > 1) checkpointer_.check_shared_folder();
}

void SaveHook::check_space(int64_t more) {
  if (!context_.saves) return;
  const TrainState state = estimate_train_state(context_.job, state_, context_.trackers.ids());
  checkpointer_.check_space(state, more + bytes_of_other_shards(context_.job, state));
}

PauseCost SaveHook::cost_left(double seconds) const {
  const int64_t step = state_.progress.step, total = context_.job.length.total_steps;
  if (saves_ == 0 || step >= total) return {};
  const double at_end = context_.job.recipe.checkpoint.at_end ? 1 : 0;
  const double count = std::floor(due_.times(step, total - 1, seconds)) + at_end;
  return {count, watch_.seconds(Phase::kSave) / static_cast<double>(saves_)};
}

void SaveHook::set_period(double seconds) {
  due_.change(context_.job.recipe.checkpoint.every, context_.job.length, state_.progress.step,
              seconds);
}

bool SaveHook::has_saved() const {
  return context_.saves ? !checkpointer_.last_checkpoint().empty() : saved_step_ >= 0;
}

}  // namespace accel
