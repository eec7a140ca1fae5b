// How the loop's state gets to the disk, and what that costs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runner/checkpoint/background_saver.h"
#include "runner/job/job.h"
#include "runner/track/record.h"

namespace accel {

/// Whether more of the metric `checkpoint.keep.by` is better.
bool more_is_better(const Job& job);

/// Counts the time of a scope as time in which training waited for a save.
class SaveStall {
 public:
  explicit SaveStall(double& seconds);
  ~SaveStall();
  SaveStall(const SaveStall&) = delete;
  SaveStall& operator=(const SaveStall&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_;
};

/// Checkpoints as `checkpoint` of the recipe says: behind training or in its way, and what a failed
/// one means. Events of the record tell how each went.
class Saving {
 public:
  /// `checkpoint` keeps the state that the loop starts from; empty when it is to be saved.
  Saving(const Job& job, CheckpointStore& store, RunRecord& record, std::string checkpoint);

  /// A disk that cannot hold one more checkpoint of this size and `more` bytes counts as a failed
  /// save; warns when it cannot hold as many as are to be kept.
  void check_space(const TrainState& state, int64_t more = 0);

  /// Starts to save, when the save before has ended. Tensors of `state` that can change before
  /// settle() is called must be copies.
  void save(TrainState state);
  /// To be called before parameters, optimizer state or callbacks change.
  void settle();
  /// Takes note of a save that has ended. Throws its IoError if the recipe says so.
  void poll();
  /// Waits for the save under way.
  void finish();

  /// Lives while the loop makes ready what it is going to save.
  SaveStall stall() { return SaveStall(stall_seconds_); }

  /// The newest checkpoint, written here or started from; empty when there is none.
  const std::string& last_checkpoint() const { return last_checkpoint_; }
  /// How long the slowest save took from start to end; 0 before the first.
  double slowest_seconds() const { return slowest_seconds_; }

 private:
  void require_space(CheckpointStore::Space space) const;
  /// Takes note of the save that `work` returns, if any; an IoError counts as the recipe says.
  template <class Work>
  void guarded(Work work);

  const CheckpointSection& options_;
  CheckpointStore& store_;
  RunRecord& record_;
  BackgroundSaver saver_;
  std::string last_checkpoint_;
  double slowest_seconds_ = 0;
  double stall_seconds_ = 0;  ///< of the save under way
};

}  // namespace accel
