// Writes the files of a checkpoint into a staging folder: one file per model and optimizer, or one
// per rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/shard_files.h"
#include "checkpoint/train_state.h"
#include "core/base/files.h"

namespace accel {

/// Upper estimate of the size of a checkpoint of `state` in bytes.
int64_t checkpoint_bytes(const TrainState& state);

/// Writes and syncs every file, the manifest last, then the folder, which must exist and be empty.
/// After a FileError the folder is incomplete.
void write_checkpoint(Files& files, const std::string& folder, const TrainState& state);

/// Writes and syncs the shards of this rank, into the shard_folders() of `folder`, and on rank 0
/// all other files but the manifest. Throws FileError.
ShardRecord write_shards(Files& files, const std::string& folder, const TrainState& state);

/// Completes the checkpoint from the records of all ranks: `.metadata` of the shards, then the
/// manifest. `state` is rank 0's, tensors may be undefined. Throws FileError, and FormatError when
/// the shards do not fit together.
void finish_shards(Files& files, const std::string& folder, const TrainState& state,
                   std::vector<ShardRecord> ranks);

}  // namespace accel
