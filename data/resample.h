// Changing the size of images as Pillow does.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/array.h"
#include "core/codec.h"
#include "runner/formats/image.h"

namespace accel {

/// How pixels between pixels are found. Bilinear averages over all that a shrunk pixel covers.
enum class Interpolation { kBilinear, kNearest };

template <>
struct EnumNames<Interpolation> {
  static constexpr std::pair<Interpolation, const char*> kValues[] = {
      {Interpolation::kBilinear, "bilinear"}, {Interpolation::kNearest, "nearest"}};
};

/// What an image of size `from` becomes: [height, width] as given, or with one value its shorter
/// side that long and its proportions kept. An unknown size (0) stays unknown with one value.
ImageSize resized(const ImageSize& from, const std::vector<int64_t>& size);

/// u8 [height, width, channels], with exactly Pillow's values.
Array resample_bytes(const Array& image, const ImageSize& size, Interpolation interpolation);

/// f32 [channels, height, width], as Pillow treats float images.
Array resample_floats(const Array& image, const ImageSize& size, Interpolation interpolation);

}  // namespace accel
