// Labelled image files in a folder or in a .tar, told apart by the folders they lie in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runner/formats/mapped_file.h"

namespace accel {

/// A file among others, by its path below the folder they were looked for in.
struct ImageFile {
  std::string path;  ///< "cat/0001.jpg"
  int64_t bytes = 0;
};

/// Where the bytes of images come from.
class ImageFiles {
 public:
  virtual ~ImageFiles() = default;

  /// JPEG and PNG files by name, sorted by path.
  const std::vector<ImageFile>& files() const { return files_; }
  /// Content of files()[index]. Called from several threads at once; throws DataError.
  virtual SharedBytes read(int64_t index) const = 0;
  /// How messages name it.
  virtual std::string name(int64_t index) const = 0;

 protected:
  std::vector<ImageFile> files_;
};

/// Opens a folder or a .tar and looks below its folder `split` ("": at its top). A folder around
/// all of a .tar is looked through. Throws DataError when there are no images, or images in formats
/// that are not read.
std::unique_ptr<ImageFiles> open_image_files(const std::string& path, const std::string& split);

}  // namespace accel
