// Labelled image files in a folder or a .tar; the subfolder is the label.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"

namespace accel {

/// A file with its path relative to the scanned folder.
struct ImageFile {
  std::string path;  ///< "cat/0001.jpg"
  int64_t bytes = 0;
};

/// Source of image files.
class ImageFiles {
 public:
  virtual ~ImageFiles() = default;

  /// JPEG and PNG files, sorted by path.
  const std::vector<ImageFile>& files() const { return files_; }
  /// Names of the folders at the top that are not hidden; empty for archives.
  const std::vector<std::string>& folders() const { return folders_; }
  /// Content of files()[index]. Thread-safe; throws DataError.
  virtual SharedBytes read(int64_t index) const = 0;
  /// For messages.
  virtual std::string name(int64_t index) const = 0;

 protected:
  std::vector<ImageFile> files_;
  std::vector<std::string> folders_;
};

/// Whether a file is a JPEG or a PNG by its first bytes.
bool is_image_file(const std::string& path);

/// Opens a folder or a .tar and scans its folder `split` ("": the top). A single folder that
/// contains all members of a .tar is skipped. A JPEG or PNG is the only one. Throws DataError
/// without images and for unsupported image formats.
std::unique_ptr<ImageFiles> open_image_files(const std::string& path, const std::string& split);

}  // namespace accel
