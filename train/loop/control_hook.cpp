#include "train/loop/control_hook.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/operations.h"
#include "train/loop/signals.h"

namespace accel {

ControlHook::ControlHook(LoopProgress progress, const AsyncCheckpointer& checkpointer)
    : context_(progress.context),
      state_(progress.state),
      checkpointer_(checkpointer),
      control_(context_.job, context_.record, context_.run_dir, state_.progress.step,
               context_.saves),
      deadline_(context_.job.recipe.checkpoint.deadline, context_.job.is_main) {
  if (!deadline_.note().empty()) say(deadline_.note());
}

bool ControlHook::is_finished() {
  const Job& job = context_.job;
  if (job.length.total_steps > 0 && state_.progress.step >= job.length.total_steps) return true;
  for (const Duration& until : job.recipe.train.until) {
    if (until.unit == Duration::Unit::kSeconds && state_.seconds >= until.value) {
      stop_reason_ = text("reached {}", to_string(until));
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

bool ControlHook::must_stop() const {
  return SignalWatch::received() != 0 ||
         deadline_.near(slowest_step_, checkpointer_.slowest_seconds());
}

bool ControlHook::any_must_stop() const {
  return any_rank(*context_.job.mesh.world, must_stop(), "whether to stop");
}

bool ControlHook::any_command(int64_t step) {
  return any_rank(*context_.job.mesh.world, control_.waiting(step), "whether a command is pending");
}

bool ControlHook::apply(const RunControlActions& actions) {
  const bool stopped = control_.apply(state_.progress.step, actions);
  if (stopped) stop_reason_ = "stopped by command";
  stop_commanded_ = stop_commanded_ || stopped;
  return any_must_stop() || stopped;
}

void ControlHook::add_step(double seconds) {
  slowest_step_ = std::max(slowest_step_, seconds);
}

void ControlHook::note_reason() {
  if (SignalWatch::received() == 0 && must_stop()) stop_reason_ = "the deadline is near";
}

bool ControlHook::is_stopped_by_command() const {
  return stop_commanded_ && SignalWatch::received() == 0;
}

}  // namespace accel
