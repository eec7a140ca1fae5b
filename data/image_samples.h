// Images in files' formats as samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/data_shape.h"
#include "core/rules.h"
#include "data/label_map.h"
#include "runner/formats/image.h"

namespace accel {

/// As of image_size_rule(), or empty.
Rule<std::vector<int64_t>> optional_image_size_rule();

/// Of a JPEG or PNG f32 [channels, height, width] in [0, 1], resized to `size` where that is not
/// empty: [height, width], or one value for the shorter side. Throws DataError naming `name`.
Array image_sample(std::span<const std::byte> file, Channels channels,
                   const std::vector<int64_t>& size, const std::string& name);

/// The size that all of `count` images have behind that resizing, as far as up to 256 of them show;
/// 0 x 0 when there are several. `size_of` tells an image's own.
ImageSize common_image_size(int64_t count, const std::vector<int64_t>& size,
                            const std::function<ImageSize(int64_t index)>& size_of);

/// Of such samples with a class label each.
DataShape image_shape(Channels channels, ImageSize size, const LabelMap& classes);

/// Calls `use` with at most `probes` indices spread evenly over [0, count).
template <class Use>
void probe(int64_t count, int64_t probes, const Use& use) {
  const int64_t number = std::min(count, probes);
  for (int64_t i = 0; i < number; ++i) use(i * count / number);
}

}  // namespace accel
