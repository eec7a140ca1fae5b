// Checkpoint store of a run: atomic saves, verified loads, retention.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/retention.h"
#include "checkpoint/shard_files.h"
#include "checkpoint/train_state.h"
#include "core/base/files.h"

namespace accel {

struct CheckpointEntry {
  int64_t step = 0;  ///< in the manifest; in the name where the manifest is unreadable
  std::string path;
  bool renamed = false;  ///< the name has another step
};

struct LoadedCheckpoint {
  std::string path;
  TrainState state;
};

/// `run_dir`/checkpoints/checkpoint_<step>/ in Accelerate's layout, staged in `run_dir`/staging.
/// One writer at a time: hold the RunLock. Readers need no lock.
class CheckpointStore {
 public:
  /// Accesses no files. `files` must outlive the store.
  CheckpointStore(Files& files, std::string run_dir);

  /// Removes the remains of a killed save or rotation from staging/, and restores a checkpoint
  /// whose replacement was interrupted. Call once at start. Throws IoError.
  void recover();

  /// The run folder exists: from now on, a save fails when it is missing instead of creating it.
  void keep_to_run_folder() { folder_exists_ = true; }

  /// Writes and publishes a checkpoint; returns its folder. Replaces one of the same step. After an
  /// IoError (exit 7) older checkpoints are unchanged.
  std::string save(const TrainState& state);

  /// A sharded save. Rank 0 calls stage(), then every rank write_shards(), then rank 0 publishes,
  /// or discards when a rank has failed. Afterwards as save(). All throw IoError.
  ///
  /// Prepares the folders; `bytes`: of the shards of all ranks.
  void stage(const TrainState& state, int64_t bytes);
  /// Writes this rank's files.
  ShardRecord write_shards(const TrainState& state) const;
  /// Writes the manifest and publishes; returns the folder.
  std::string publish_shards(const TrainState& state, std::vector<ShardRecord> ranks);
  /// Deletes what was staged for `step`.
  void discard_staged(int64_t step);

  /// Creates an empty file in staging/ for other ranks to see, and returns its name. Throws
  /// IoError.
  std::string add_probe();
  bool has_probe(const std::string& name) const;
  void remove_probe(const std::string& name);

  /// Bytes of a checkpoint, and free bytes of its disk.
  struct Space {
    int64_t needed = 0;
    int64_t free = 0;
  };
  /// Throws IoError.
  Space space(const TrainState& state) const;

  /// Published checkpoints by ascending step, unverified.
  std::vector<CheckpointEntry> list() const;

  /// Compares every file with the manifest. Throws CheckpointError with the file and both values.
  void verify(const std::string& path) const;

  /// The state without tensors, from the manifest. Throws CheckpointError.
  TrainState inspect(const std::string& path) const;

  /// Verifies, then reads. A folder without a manifest gives the model, optimizer, learning rates
  /// and generator states of Accelerate; TrainState::accelerate lists the missing files. Throws
  /// CheckpointError.
  TrainState load(const std::string& path, const LoadOptions& options = {}) const;

  /// The newest valid checkpoint. Reports the error of each newer one, and a name with another
  /// step than the manifest.
  std::optional<LoadedCheckpoint> load_newest(const Report& report = {},
                                              const LoadOptions& options = {}) const;

  /// Deletes checkpoints by the policy. Ignores damaged ones, those of Accelerate and those after
  /// step `newest`: a run that has resumed before a damaged checkpoint must not delete its new ones
  /// in favour of later steps. Throws IoError.
  void retain(const KeepPolicy& policy, int64_t newest = std::numeric_limits<int64_t>::max());

 private:
  /// A folder of the run; not the run folder itself once it exists.
  void make_folder(const std::string& path);
  void require_run_folder(int64_t step) const;
  std::string published(int64_t step) const;
  std::string staged(int64_t step) const;
  /// Creates the empty folder of a save, if `bytes` are free.
  void prepare(int64_t step, int64_t bytes);
  void publish(int64_t step);
  [[noreturn]] void throw_failed(int64_t step, int64_t bytes, const std::string& reason) const;
  /// Runs a part of a save; a failure discards what was staged.
  template <class Part>
  void attempt(int64_t step, int64_t bytes, Part part);
  void discard(const std::string& path, int64_t step);

  Files& files_;
  std::string run_dir_;
  std::string staging_;
  std::string checkpoints_;
  bool folder_exists_ = false;
};

}  // namespace accel
