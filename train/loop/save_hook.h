// Checkpoints of the loop: the state of all ranks, saved when due.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/loop/async_checkpointer.h"
#include "train/loop/loop_context.h"
#include "train/loop/progress_hook.h"
#include "train/loop/run_state.h"
#include "train/loop/trigger.h"
#include "train/step/stopwatch.h"

namespace accel {

/// Saves as the recipe's `checkpoint` section configures. All ranks call save() and after_step();
/// rank 0 writes, or each rank its shards.
class SaveHook {
 public:
  /// `checkpoint` is the path of the current state, empty when it is not saved yet.
  SaveHook(LoopProgress progress, const std::string& checkpoint);

  void save();
  /// Saves, waits until the checkpoint is written, and returns the answer to the command `save`.
  std::string save_now();
  /// Saves when due. `seconds`: since the start of the process.
  void after_step(double seconds);
  /// Deletes the checkpoint that a killed process saved and did not rotate.
  void rotate();
  /// Fails when ranks are to write shards and do not see the run folder. All ranks call it.
  void check_shared_folder();
  /// Fails or warns when a checkpoint of the state and `more` bytes does not fit on the disk.
  void check_space(int64_t more);
  /// Whether the current state is saved.
  bool is_saved() const { return saved_step_ == state_.progress.step; }
  /// The saved state of this step is outdated.
  void invalidate() { saved_step_ = -1; }
  /// The saves after this step, of a run whose other steps take `seconds`.
  PauseCost cost_left(double seconds) const;
  /// The period `checkpoint.every` has changed.
  void set_period(double seconds);
  /// Whether there is a checkpoint to resume from; on ranks other than 0, whether they took part in
  /// a save.
  bool has_saved() const;

  AsyncCheckpointer& checkpointer() { return checkpointer_; }
  const AsyncCheckpointer& checkpointer() const { return checkpointer_; }

 private:
  const LoopContext& context_;
  const RunState& state_;
  Stopwatch& watch_;
  const std::function<void()>& settle_;
  Trigger due_;
  AsyncCheckpointer checkpointer_;
  int64_t saved_step_;
  int64_t saves_ = 0;  ///< of this process
};

}  // namespace accel
