#include "train/loop/async_checkpointer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "train/loop/run_state.h"

namespace accel {
namespace {

KeepPolicy keep_policy(const Job& job) {
  const KeepSection& keep = job.recipe.checkpoint.keep;
  KeepPolicy policy;
  policy.last = keep.last;
  policy.best = keep.best;
  policy.metric = keep.metric;
  policy.mode = more_is_better(job) ? KeepPolicy::Mode::kMax : KeepPolicy::Mode::kMin;
  return policy;
}

std::string milliseconds(double seconds) {
  return std::to_string(std::llround(seconds * 1e3)) + " ms";
}

}  // namespace

StallTimer::StallTimer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}

StallTimer::~StallTimer() {
  seconds_ += std::chrono::duration<double>(Clock::now() - start_).count();
}

bool more_is_better(const Job& job) {
  const KeepSection& keep = job.recipe.checkpoint.keep;
  if (keep.mode != BestMode::kAuto) return keep.mode == BestMode::kMax;
  for (const auto& [name, higher] : job.metric_names) {
    if (name == keep.metric) return higher;
  }
  return false;
}

AsyncCheckpointer::AsyncCheckpointer(const Job& job, CheckpointStore& store, RunRecord& record,
                                     std::string checkpoint)
    : options_(job.recipe.checkpoint),
      // A copy of state that is on the disk would take its memory.
      async_(options_.async && !job.swapper),
      store_(store),
      record_(record),
      saver_(store, keep_policy(job)),
      shards_(job, store, keep_policy(job)),
      last_checkpoint_(std::move(checkpoint)) {}

template <class Work>
void AsyncCheckpointer::guarded(Work work) {
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
    warn(text("{}; training continues ('checkpoint.on_error' is continue)", error.what()));
  }
}

void AsyncCheckpointer::check_space(const TrainState& state, int64_t more) {
  guarded([&] {
    const CheckpointStore::Space space = store_.space(state);
    require_space({space.needed + more, space.free});
    return std::optional<FinishedSave>();
  });
}

void AsyncCheckpointer::rotate(int64_t step) {
  guarded([&] {
    saver_.retain(step);
    return std::optional<FinishedSave>();
  });
}

void AsyncCheckpointer::require_space(CheckpointStore::Space space) const {
  if (space.free < space.needed) {
    throw IoError(text("too little disk space for a checkpoint: {} bytes needed, {} free",
                       space.needed, space.free),
                  "free disk space, or move the run to another folder");
  }
  // One more than are kept: a new checkpoint is written before the oldest is deleted.
  const auto present = static_cast<int64_t>(store_.list().size());
  const int64_t more = std::max<int64_t>(1, options_.keep.last + options_.keep.best + 1 - present);
  if (space.free / more < space.needed) {
    warn(text(
        "the disk has space for {} more checkpoints of {} bytes, but 'checkpoint.keep' needs {}: "
        "free disk space, or keep fewer",
        space.free / space.needed, space.needed, more));
  }
}

void AsyncCheckpointer::wait_for_snapshot() {
  const StallTimer stall(stall_seconds_);
  saver_.wait_for_snapshot();
  shards_.wait_for_snapshot();
}

void AsyncCheckpointer::poll() {
  guarded([this] { return saver_.poll(); });
  guarded([this] { return shards_.poll(); });
}

void AsyncCheckpointer::finish() {
  if (shards_.is_writing()) commit_shards();
  guarded([this] { return saver_.wait(); });
  guarded([this] { return shards_.wait(); });
}

void AsyncCheckpointer::save(TrainState state) {
  finish();
  mark_record(state);
  if (async_) {
    saver_.begin(std::move(state));
  } else {
    guarded([&] { return std::optional(saver_.save_now(state)); });
  }
}

void AsyncCheckpointer::save_shards(TrainState state, int64_t bytes) {
  finish();
  mark_record(state);
  guarded([&] {
    shards_.begin(std::move(state), bytes, async_);
    return std::optional<FinishedSave>();
  });
  if (!async_ && shards_.is_writing()) commit_shards();
}

void AsyncCheckpointer::commit_shards() {
  guarded([this] {
    shards_.commit(!async_);
    return shards_.poll();
  });
}

void AsyncCheckpointer::mark_record(TrainState& state) {
  record_.sync();  // a checkpoint must not be ahead of the record on the disk
  save_record_mark(record_.mark(), state);
}

}  // namespace accel
