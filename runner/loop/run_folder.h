// The folder a run lives in.
#pragma once

#include <string>

#include "runner/checkpoint/files.h"

namespace accel {

/// Throws what make_run_folder() or the lock would, as far as that can be told without writing
/// anything: IoError, or the lock's Error when another process has the folder.
void check_run_folder(const std::string& dir);

/// Makes `dir`, an absolute path, and what is missing above it, all of which survives a crash of
/// the machine. Throws IoError.
void make_run_folder(Files& files, const std::string& dir);

/// Proves that files can be created, synced, renamed and removed in `dir`, so that a full disk is
/// found before training and not at the first save. Throws IoError.
void try_run_folder(Files& files, const std::string& dir);

/// Replaces `path` in one step: readers see the old text or the new one. Throws IoError.
void write_whole(const std::string& path, const std::string& text);

}  // namespace accel
