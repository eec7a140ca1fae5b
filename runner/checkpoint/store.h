// The checkpoints of one run: written whole or not at all, checked before use, never lost.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"
#include "runner/checkpoint/train_state.h"

namespace accel {

/// Told, as one line, what is worth a warning but stops nothing.
using Report = std::function<void(const std::string&)>;

/// Which checkpoints stay.
struct KeepPolicy {
  enum class Mode { kMin, kMax };

  int64_t last = 2;  ///< the newest ones; 0 keeps all
  int64_t best = 0;  ///< and these many best ones
  std::string by;    ///< the metric that says which are best: "eval/accuracy"
  Mode mode = Mode::kMin;
};

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

struct LoadOptions {
  /// Names of the optimizer's parameters in its order. Only folders that Accelerate wrote need
  /// them: their optimizer.bin knows running numbers alone.
  std::vector<std::string> parameters;
  Report report;
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

  /// Published checkpoints by ascending step, unverified.
  std::vector<CheckpointEntry> list() const;

  /// Compares every file with the manifest. Throws CheckpointError naming the file, what was
  /// found and what was expected.
  void verify(const std::string& path) const;

  /// Everything but the tensors, from the manifest alone. Throws CheckpointError.
  TrainState inspect(const std::string& path) const;

  /// Verifies, then reads. A folder without our manifest gives model, optimizer, learning rates and
  /// generator state as far as Accelerate wrote them, and reports so. Throws CheckpointError.
  TrainState load(const std::string& path, const LoadOptions& options = {}) const;

  /// The newest checkpoint that verifies; each newer one that does not is reported with its fault.
  std::optional<std::string> newest_valid(const Report& report) const;

  /// Deletes what the policy does not keep. The newest and the last valid checkpoint always stay.
  /// Throws IoError.
  void retain(const KeepPolicy& policy);

 private:
  Files& files_;
  std::string run_dir_;
};

}  // namespace accel
