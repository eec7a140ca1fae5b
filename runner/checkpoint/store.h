// The checkpoints of one run: written whole or not at all, checked before use, never lost.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"
#include "runner/checkpoint/reader.h"
#include "runner/checkpoint/retention.h"
#include "runner/checkpoint/train_state.h"

namespace accel {

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

struct LoadedCheckpoint {
  std::string path;
  TrainState state;
};

/// `run_dir`/checkpoints/checkpoint_<step>/ in Accelerate's own layout, staged in
/// `run_dir`/staging. One writer at a time: hold the RunLock. Readers may come at any time.
class CheckpointStore {
 public:
  /// Touches nothing yet. `files` must outlive the store.
  CheckpointStore(Files& files, std::string run_dir);

  /// Removes what a killed save or rotation left in staging/, and puts back a checkpoint whose
  /// replacement was not finished. Call once at start. Throws IoError.
  void recover();

  /// Writes and publishes; returns the folder. A checkpoint of the same step is replaced. Throws
  /// IoError (exit 7), after which older checkpoints are as they were.
  std::string save(const TrainState& state);

  /// Bytes that a checkpoint of a state takes, and that are free where it would be written.
  struct Space {
    int64_t needed = 0;
    int64_t free = 0;
  };
  /// Throws IoError.
  Space space(const TrainState& state) const;

  /// Published checkpoints by ascending step, unverified.
  std::vector<CheckpointEntry> list() const;

  /// Compares every file with the manifest. Throws CheckpointError naming the file, what was
  /// found and what was expected.
  void verify(const std::string& path) const;

  /// Everything but the tensors, from the manifest alone. Throws CheckpointError.
  TrainState inspect(const std::string& path) const;

  /// Verifies, then reads. A folder without our manifest gives model, optimizer, learning rates and
  /// generator state as far as Accelerate wrote them; `accelerate` says what it lacks. Throws
  /// CheckpointError.
  TrainState load(const std::string& path, const LoadOptions& options = {}) const;

  /// The newest checkpoint that verifies and reads; each newer one that does not is reported with
  /// its fault.
  std::optional<LoadedCheckpoint> load_newest(const Report& report = {}) const;

  /// Deletes what the policy does not keep. Only whole checkpoints of ours count and go: damaged
  /// ones, those that Accelerate wrote and those after step `newest` are left alone: a run that had
  /// to fall back behind a damaged one must not lose its new ones to that. Throws IoError.
  void retain(const KeepPolicy& policy, int64_t newest = std::numeric_limits<int64_t>::max());

 private:
  std::string published(int64_t step) const;
  void publish(const std::string& staged, int64_t step);

  Files& files_;
  std::string run_dir_;
  std::string staging_;
  std::string checkpoints_;
};

}  // namespace accel
