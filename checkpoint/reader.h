// Reads checkpoints, after verifying their files.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_files.h"
#include "checkpoint/train_state.h"
#include "core/base/files.h"

namespace accel {

/// Receives a warning as one line.
using Report = std::function<void(const std::string&)>;

struct LoadOptions {
  /// Names of the trained parameters by id, for folders of Accelerate, whose optimizer.bin has only
  /// ids.
  std::vector<std::string> parameters = {};
  /// Names of all parameters in the model's order, with frozen ones: a Python script may have
  /// passed all of them to its optimizer, which then has ids for all and state for the trained
  /// ones.
  std::vector<std::string> with_frozen = {};
  /// Counts of `parameters` in the optimizer's groups.
  std::vector<size_t> group_sizes = {};
  /// Of the Python module that a folder of Accelerate may be of, besides the model's own. Null: of
  /// none.
  std::shared_ptr<const StoredLayout> layout = nullptr;
  /// Names of further models, in the order of their files.
  std::vector<std::string> models = {};
  /// Use the ids as names, to inspect a folder without a recipe.
  bool numbered = false;
  /// Files of Accelerate to ignore.
  std::set<std::string> without = {};
  /// Leave out the optimizer of a folder with a manifest.
  bool without_optimizer = false;
  /// The region of a parameter to read, in a folder with a manifest. Null: all of it.
  RegionOf region_of = {};
  /// Verifies a folder with a manifest together with other ranks, before it is read. Null: this
  /// process verifies all of it.
  std::function<void(const std::string& folder)> verify = {};
};

/// False for a folder of Accelerate.
bool has_manifest(Files& files, const std::string& folder);

/// The step in the manifest of a folder; null without a readable manifest.
std::optional<int64_t> step_in_manifest(Files& files, const std::string& folder);

/// Reads the manifest and compares it with the sizes of all files. Throws CheckpointError.
Manifest inspect_checkpoint(Files& files, const std::string& folder);

/// As inspect_checkpoint(), with the checksums of all files. Throws CheckpointError.
void verify_checkpoint(Files& files, const std::string& folder);

/// As verify_checkpoint(), of the files that are `rank`'s: those of all `ranks` are all files.
void verify_share(Files& files, const std::string& folder, int64_t rank, int64_t ranks);

/// Verifies and reads a folder with a manifest. A parameter that is read in part, or state for it,
/// has its whole shape in `global`. Throws CheckpointError.
TrainState read_checkpoint(Files& files, const std::string& folder,
                           const LoadOptions& options = {});

/// Reads a folder of Accelerate's save_state(). Throws CheckpointError.
TrainState read_accelerate_checkpoint(Files& files, const std::string& folder,
                                      const LoadOptions& options);

}  // namespace accel
