// The checkpoint that all ranks resume from: verified by all of them together, and named by rank 0.
#pragma once

#include <exception>
#include <string>

#include "checkpoint/reader.h"
#include "train/job/job.h"

namespace accel {

/// Loads this rank's shards. With several ranks rank 0 has the others verify files too; the other
/// ranks have done so. `job` and `files` outlive it.
LoadOptions load_options(const Job& job, Files& files);

/// Rank 0 sends the path of the checkpoint that it has restored, "" for none.
void send_checkpoint(const Job& job, const std::string& path);

/// Rank 0 sends its error instead.
void send_refusal(const Job& job, const std::exception& error);

/// The other ranks verify files for rank 0 until it sends a checkpoint, and return its path, "" for
/// none. Throws rank 0's error, and CheckpointError when this rank does not see the same
/// checkpoint.
std::string receive_checkpoint(const Job& job, Files& files);

}  // namespace accel
