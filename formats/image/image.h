// Decoding of JPEG (libjpeg-turbo) and PNG (libpng) images, with the pixel values of Pillow, and
// encoding of PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/array.h"

namespace accel {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Output channels, converted as by Pillow's convert("RGB") and convert("L"); alpha is dropped.
enum class Channels { kRgb, kGray };

/// Size of a JPEG or PNG from its header; the format is detected by content. Throws DataError with
/// `name` for other and damaged files, for more than 64 Mpx and for more than its bytes can hold.
ImageSize image_size(std::span<const std::byte> file, const std::string& name);

/// Decodes a JPEG or PNG into u8 [height, width, 3] or [height, width, 1]. Throws as image_size,
/// and for a truncated image. The EXIF orientation is not applied: see
/// upright().
Array decode_image(std::span<const std::byte> file, Channels channels, const std::string& name);

/// The bytes of a PNG file. `channels` is 1 (grey) or 3 (red, green, blue); `pixels` are the rows
/// in order. Throws std::logic_error for another number of pixels.
std::string encode_png(const ImageSize& size, int64_t channels, std::span<const uint8_t> pixels);

}  // namespace accel
