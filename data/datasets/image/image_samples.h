// Samples from encoded images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/api/data_shape.h"
#include "core/recipe/rules.h"
#include "data/datasets/label_map.h"
#include "formats/image/image.h"

namespace accel {

/// As image_size_rule(), but may be empty.
Rule<std::vector<int64_t>> optional_image_size_rule();

struct ImageDecoding {
  Channels channels = Channels::kRgb;
  std::vector<int64_t> size = {};  ///< [height, width], one value for the shorter side, or empty
  bool exif_orientation = false;   ///< turn images as their EXIF orientation says
};

/// The size before resizing. Throws DataError naming `name`.
ImageSize own_image_size(std::span<const std::byte> file, const ImageDecoding& decoding,
                         const std::string& name);

/// Decodes a JPEG or PNG to f32 [channels, height, width] in [0, 1]. Throws DataError naming
/// `name`.
Array image_sample(std::span<const std::byte> file, const ImageDecoding& decoding,
                   const std::string& name);

/// The common size of `count` images after resizing, judged by up to 256 of them; 0 x 0 if sizes
/// differ. `size_of` returns the original size.
ImageSize common_image_size(int64_t count, const std::vector<int64_t>& size,
                            const std::function<ImageSize(int64_t index)>& size_of);

/// The shape of such samples with class labels.
DataShape image_shape(Channels channels, ImageSize size, const LabelMap& classes);

/// Calls `use` with at most `probes` evenly spaced indices in [0, count).
template <class Use>
void probe(int64_t count, int64_t probes, const Use& use) {
  const int64_t number = std::min(count, probes);
  for (int64_t i = 0; i < number; ++i) use(i * count / number);
}

}  // namespace accel
