// Image resizing with Pillow's results.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/array.h"
#include "core/recipe/codec.h"
#include "formats/image/image.h"

namespace accel {

/// Interpolation mode. Bilinear and bicubic average over all covered pixels when downscaling.
enum class Interpolation { kBilinear, kBicubic, kNearest };

template <>
struct EnumNames<Interpolation> {
  static constexpr std::pair<Interpolation, const char*> kValues[] = {
      {Interpolation::kBilinear, "bilinear"},
      {Interpolation::kBicubic, "bicubic"},
      {Interpolation::kNearest, "nearest"}};
};

/// The resized size of an image: [height, width] as given; one value sets the shorter side and
/// keeps the aspect ratio. With one value, unknown sizes (0) stay unknown.
ImageSize resized(const ImageSize& from, const std::vector<int64_t>& size);

/// u8 [height, width, channels], with the exact values of Pillow.
Array resample_bytes(const Array& image, const ImageSize& size, Interpolation interpolation);

/// f32 [channels, height, width], as Pillow for float images.
Array resample_floats(const Array& image, const ImageSize& size, Interpolation interpolation);

}  // namespace accel
