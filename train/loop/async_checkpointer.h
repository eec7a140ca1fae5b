// Asynchronous checkpointing: saves the loop's state and measures how long training waited.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "checkpoint/background_saver.h"
#include "track/record.h"
#include "train/job/job.h"
#include "train/loop/sharded_saver.h"

namespace accel {

/// Whether a higher value of the metric `checkpoint.keep.metric` is better.
bool more_is_better(const Job& job);

/// Adds the lifetime of a scope to the time that training waited for a save.
class StallTimer {
 public:
  explicit StallTimer(double& seconds);
  ~StallTimer();
  StallTimer(const StallTimer&) = delete;
  StallTimer& operator=(const StallTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_;
};

/// Saves as the recipe's `checkpoint` section configures: asynchronously or not, with its handling
/// of a failed save. Each save is recorded as an event.
class AsyncCheckpointer {
 public:
  /// `checkpoint` is the path of the state the loop starts from; empty when it is not saved yet.
  AsyncCheckpointer(const Job& job, CheckpointStore& store, RunRecord& record,
                    std::string checkpoint);

  /// Too little disk space for a checkpoint of this size plus `more` bytes counts as a failed save;
  /// warns when the checkpoints to keep do not all fit.
  void check_space(const TrainState& state, int64_t more = 0);

  /// Deletes checkpoints up to `step` by `checkpoint.keep`: a kill between a save and its rotation
  /// leaves one too many.
  void rotate(int64_t step);

  /// Before the first save of a sharded state: see ShardedSaver.
  void check_shared_folder() { shards_.check_shared_folder(); }

  /// Starts a save once the previous one has ended. Tensors of `state` that can change before
  /// wait_for_snapshot() must be copies.
  void save(TrainState state);
  /// The same for a state of which each rank writes its shards, of `bytes` over all ranks. All
  /// ranks call it.
  void save_shards(TrainState state, int64_t bytes);
  /// Whether a save of shards is to be committed when all ranks have written; the same on all.
  bool is_writing_shards() const { return shards_.is_writing(); }
  /// Whether this rank has written its shards.
  bool has_written_shards() const { return shards_.has_written(); }
  /// Commits the shards that all ranks have written. All ranks call it.
  void commit_shards();
  /// Call before parameters, optimizer state or callbacks change.
  void wait_for_snapshot();
  /// Records a finished save. Throws its IoError under `on_error: stop`.
  void poll();
  /// Waits for the save under way. All ranks call it.
  void finish();

  /// Measures the time in which the loop gathers the state to save.
  StallTimer stall() { return StallTimer(stall_seconds_); }

  /// The newest checkpoint, written or resumed from; empty when there is none.
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  /// Seconds of the slowest save; 0 before the first.
  double slowest_seconds() const { return slowest_seconds_; }

 private:
  void mark_record(TrainState& state);
  void require_space(CheckpointStore::Space space) const;
  /// Records the save that `work` returns, if any; handles an IoError by `checkpoint.on_error`.
  template <class Work>
  void guarded(Work work);

  const CheckpointSection& options_;
  const bool async_;
  CheckpointStore& store_;
  RunRecord& record_;
  BackgroundSaver saver_;
  ShardedSaver shards_;
  std::string last_checkpoint_;
  double slowest_seconds_ = 0;
  double stall_seconds_ = 0;  ///< of the save under way
};

}  // namespace accel
