// What the verbs that read a checkpoint and write a folder take from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"

namespace accel {

/// Whether a path is a run folder rather than one of its checkpoints.
bool is_run(const std::string& path);

/// A checkpoint as it was given, or the newest one of a run folder. Throws CheckpointError,
/// IoError.
std::string checkpoint_at(DiskFiles& files, const std::string& path);

/// The path without its last slash. Throws Error (kRecipe) when something is there already.
std::string new_folder(const std::string& path);

/// Bytes in "5 GB". Throws Error (kRecipe).
uint64_t shard_bytes(const std::string& text);

/// A line for each file.
std::string listing_text(const std::vector<DirEntry>& entries);

}  // namespace accel
