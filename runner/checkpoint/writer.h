// Writes the files of one checkpoint into a folder that nobody reads yet.
#pragma once

#include <cstdint>
#include <string>

#include "runner/checkpoint/files.h"
#include "runner/checkpoint/train_state.h"

namespace accel {

/// Bytes that a checkpoint of `state` takes, a little too many rather than too few.
int64_t checkpoint_bytes(const TrainState& state);

/// Writes and syncs every file, the manifest last, then the folder, which must exist and be empty.
/// Throws FileError, after which the folder is worth nothing.
void write_checkpoint(Files& files, const std::string& folder, const TrainState& state);

}  // namespace accel
