// The folder a run lives in.
#pragma once

#include <string>

namespace accel {

/// Makes `dir` and proves that files can be created, synced, renamed and removed in it, so that a
/// full or read-only disk is found before training and not at the first save. Throws IoError.
void prepare_run_folder(const std::string& dir);

/// Replaces `path` in one step: readers see the old text or the new one. Throws IoError.
void write_whole(const std::string& path, const std::string& text);

}  // namespace accel
