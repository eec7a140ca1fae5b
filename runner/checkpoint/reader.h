// Reads the files of one checkpoint, believing none of them before it was checked.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"
#include "runner/checkpoint/manifest.h"
#include "runner/checkpoint/train_state.h"

namespace accel {

/// Told, as one line, what is worth a warning but stops nothing.
using Report = std::function<void(const std::string&)>;

struct LoadOptions {
  /// Names of the optimizer's parameters in its order. Only folders that Accelerate wrote need
  /// them: their optimizer.bin knows running numbers alone.
  std::vector<std::string> parameters = {};
  /// Those of the whole model in its order, frozen ones too: an optimizer of Python's may have been
  /// given all of them. It then numbers all, and has a state of those that it trained.
  std::vector<std::string> with_frozen = {};
  /// Names of the further models, in the order of their files.
  std::vector<std::string> models = {};
  /// Where there are none: take running numbers for names, to look at what there is.
  bool numbered = false;
  /// Files of such a folder to leave unread, as if they were not there.
  std::set<std::string> without = {};
};

/// Whether a folder has our manifest; one that Accelerate wrote has none.
bool has_manifest(Files& files, const std::string& folder);

/// Reads the manifest and compares the sizes of all files with it. Throws CheckpointError.
Manifest inspect_checkpoint(Files& files, const std::string& folder);

/// As inspect_checkpoint, and compares every file's checksum. Throws CheckpointError.
void verify_checkpoint(Files& files, const std::string& folder);

/// Verifies and reads a folder of ours. Throws CheckpointError.
TrainState read_checkpoint(Files& files, const std::string& folder);

/// Reads a folder that Accelerate's save_state wrote. Throws CheckpointError.
TrainState read_accelerate_checkpoint(Files& files, const std::string& folder,
                                      const LoadOptions& options);

}  // namespace accel
