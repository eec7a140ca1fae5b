#include "core/base/folders.h"

#include "core/base/error.h"
#include "core/base/files.h"

namespace accel {

void make_folder_within(const std::string& root, const std::string& path) try {
  DiskFiles().make_dirs(path, root);
} catch (const FileError& error) {
  throw IoError(error.what(), full_disk_hint(error.code().value()));
}

void write_file_within(const std::string& root, const std::string& path, std::string_view bytes) {
  make_folder_within(root, folder_of(path));
  write_file_atomically(path, bytes);
}

}  // namespace accel
