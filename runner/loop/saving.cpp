#include "runner/loop/saving.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace accel {
namespace {

KeepPolicy keep_policy(const Job& job) {
  const KeepSection& keep = job.recipe.checkpoint.keep;
  KeepPolicy policy;
  policy.last = keep.last;
  policy.best = keep.best;
  policy.by = keep.by;
  policy.mode = more_is_better(job) ? KeepPolicy::Mode::kMax : KeepPolicy::Mode::kMin;
  return policy;
}

std::string milliseconds(double seconds) {
  return std::to_string(std::llround(seconds * 1e3)) + " ms";
}

}  // namespace

SaveStall::SaveStall(double& seconds) : seconds_(seconds), start_(Clock::now()) {}

SaveStall::~SaveStall() {
  seconds_ += std::chrono::duration<double>(Clock::now() - start_).count();
}

bool more_is_better(const Job& job) {
  const KeepSection& keep = job.recipe.checkpoint.keep;
  if (keep.mode != BestMode::kAuto) return keep.mode == BestMode::kMax;
  for (const auto& [name, higher] : job.metric_names) {
    if (name == keep.by) return higher;
  }
  return false;
}

Saving::Saving(const Job& job, CheckpointStore& store, RunRecord& record, std::string checkpoint)
    : options_(job.recipe.checkpoint),
      store_(store),
      record_(record),
      saver_(store, keep_policy(job)),
      last_checkpoint_(std::move(checkpoint)) {}

template <class Work>
void Saving::guarded(Work work) {
  try {
    const std::optional<FinishedSave> done = work();
    if (!done) return;
    last_checkpoint_ = done->path;
    slowest_seconds_ = std::max(slowest_seconds_, done->seconds);
    record_.event(done->step, "save",
                  done->path + " in " + milliseconds(done->seconds) + ", training waited " +
                      milliseconds(stall_seconds_));
    stall_seconds_ = 0;
  } catch (const IoError& error) {
    if (options_.on_error == SaveError::kStop) throw;
    warn(std::string(error.what()) + "; training goes on, as 'checkpoint.on_error' says");
  }
}

void Saving::check_space(const TrainState& state, int64_t more) {
  guarded([&] {
    const CheckpointStore::Space space = store_.space(state);
    require_space({space.needed + more, space.free});
    return std::optional<FinishedSave>();
  });
}

void Saving::require_space(CheckpointStore::Space space) const {
  if (space.free < space.needed) {
    throw IoError("the disk is too full for a checkpoint: it needs " +
                      std::to_string(space.needed) + " bytes, " + std::to_string(space.free) +
                      " are free",
                  "make room, or give the run another folder");
  }
  // One more than are kept: the new one is there before the oldest goes.
  const auto present = static_cast<int64_t>(store_.list().size());
  const int64_t more = std::max<int64_t>(1, options_.keep.last + options_.keep.best + 1 - present);
  if (space.free / more < space.needed) {
    warn("the disk has room for " + std::to_string(space.free / space.needed) +
         " more checkpoints of " + std::to_string(space.needed) + " bytes, but up to " +
         std::to_string(more) + " will be kept");
  }
}

void Saving::settle() {
  const SaveStall stall(stall_seconds_);
  saver_.wait_until_copied();
}

void Saving::poll() {
  guarded([this] { return saver_.poll(); });
}

void Saving::finish() {
  guarded([this] { return saver_.wait(); });
}

void Saving::save(TrainState state) {
  finish();
  record_.sync();  // a checkpoint must not know of steps that the record has lost
  if (options_.async) {
    saver_.begin(std::move(state));
  } else {
    guarded([&] { return std::optional(saver_.save_now(state)); });
  }
}

}  // namespace accel
