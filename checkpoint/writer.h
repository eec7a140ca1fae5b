// Writes the files of a checkpoint into a staging folder.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/train_state.h"
#include "core/base/files.h"

namespace accel {

/// Upper estimate of the size of a checkpoint of `state` in bytes.
int64_t checkpoint_bytes(const TrainState& state);

/// Writes and syncs every file, the manifest last, then the folder, which must exist and be empty.
/// After a FileError the folder is incomplete.
void write_checkpoint(Files& files, const std::string& folder, const TrainState& state);

}  // namespace accel
