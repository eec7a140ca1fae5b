// The run folder: creation and checks.
#pragma once

#include <string>

#include "core/base/files.h"

namespace accel {

/// Checks without writing: throws IoError for a folder that cannot be created or written to, and
/// the lock's Error when another process holds it.
void check_run_folder(const std::string& dir);

/// Throws IoError when a file that a run opens in `dir` is none, such as a pipe, which would block.
void check_run_files(const std::string& dir);

/// Creates `dir`, an absolute path, and its missing parents, and syncs them to the disk. Throws
/// IoError.
void make_run_folder(Files& files, const std::string& dir);

/// The first free name of `dir`, `dir`-2, `dir`-3, ...: the folder of a new run.
std::string new_run_dir(const std::string& dir);
/// The first free name of `dir`-old, `dir`-old-2, ...: where a run that starts over keeps its old
/// folder.
std::string old_run_dir(const std::string& dir);

/// Renames the run folder `dir` to `to` while holding its lock. Throws the lock's Error when
/// another process holds it, and IoError.
void set_aside(Files& files, const std::string& dir, const std::string& to);

/// Creates, syncs, renames and removes a file in `dir`, to find a full disk before training and not
/// at the first save. Throws IoError.
void try_run_folder(Files& files, const std::string& dir);

}  // namespace accel
