// What a folder or .tar of images holds, as far as a recipe for it must say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace accel {

struct SniffedImages {
  std::string train;  ///< folder of the training part; empty: everything
  std::string eval;   ///< folder of the other part; empty: there is none
  int64_t count = 0;  ///< of training images
  int64_t classes = 0;
  int64_t side = 0;       ///< longer side of the images looked at
  bool same_size = true;  ///< as far as looked at
};

/// Null when there are no JPEG or PNG files. Throws DataError for images that lie in no class
/// folders.
std::optional<SniffedImages> sniff_images(const std::string& path);

}  // namespace accel
