// Folders and files inside a folder that must exist: a folder of a run that was removed or moved
// during the run is not created again.
#pragma once

#include <string>
#include <string_view>

namespace accel {

/// Creates `path` and its missing parents in `root`, which must exist. Existing folders are kept.
/// Throws IoError.
void make_folder_within(const std::string& root, const std::string& path);
/// Creates the folders of the file, then writes it atomically. Throws IoError.
void write_file_within(const std::string& root, const std::string& path, std::string_view bytes);

}  // namespace accel
