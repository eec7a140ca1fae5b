// Image resizing with Pillow's results.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/array.h"
#include "data/transforms/filter_taps.h"
#include "formats/image/image.h"

namespace accel {

/// The resized size of an image: [height, width] as given; one value sets the shorter side and
/// keeps the aspect ratio. With one value, unknown sizes (0) stay unknown.
ImageSize resized(const ImageSize& from, const std::vector<int64_t>& size);

/// Whether Pillow (13) resizes the height before the width: where it shrinks by more pixels than
/// twice those of the width. Each pass rounds, so that the order decides on bits.
bool is_height_first(const ImageSize& from, const ImageSize& to);

/// u8 [height, width, channels] resized with the exact values of Pillow, as f32 [channels, height,
/// width] in [0, 1]: bytes / 255, correctly rounded.
Array resample_bytes(const Array& image, const ImageSize& size, Interpolation interpolation);

/// f32 [channels, height, width], as Pillow for float images.
Array resample_floats(const Array& image, const ImageSize& size, Interpolation interpolation);

}  // namespace accel
