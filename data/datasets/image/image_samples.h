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
#include "core/recipe/schema.h"
#include "data/datasets/label_map.h"
#include "data/transforms/resample.h"
#include "formats/image/image.h"

namespace accel {

/// As image_size_rule(), but may be empty.
Rule<std::vector<int64_t>> optional_image_size_rule();

/// Adds `size` and `interpolation`, members of `Options` with these names, to a schema.
template <class Options>
Schema<Options> with_image_size_options(Schema<Options> schema) {
  return std::move(schema)
      .field("size", &Options::size,
             "Resize when decoding, as Pillow: [height, width], or one value for the shorter side. "
             "Empty: each image's own size.",
             optional_image_size_rule())
      .field("interpolation", &Options::interpolation, "How 'size' finds pixels.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (!options.size.empty() || options.interpolation == Interpolation::kBilinear) return;
        reading.problems.error(node.find("interpolation")->where,
                               "'interpolation' has no effect without 'size'",
                               "set 'size', or leave it out");
      });
}

struct ImageDecoding {
  Channels channels = Channels::kRgb;
  std::vector<int64_t> size = {};  ///< [height, width], one value for the shorter side, or empty
  Interpolation interpolation = Interpolation::kBilinear;
  bool exif_orientation = false;  ///< turn images as their EXIF orientation says
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
