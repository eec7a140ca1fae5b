// Compressed images as arrays of pixels, with Pillow's values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/array.h"

namespace accel {

/// Which channels are wanted. Conversions are Pillow's convert("RGB") and convert("L"); an alpha
/// channel is dropped.
enum class Channels { kRgb, kGray };

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Size of a JPEG or PNG (told apart by content), from its header. Throws DataError naming `name`
/// when it is neither, damaged, or claims more than 64 Mpx or more than its bytes can hold.
ImageSize image_size(std::span<const std::byte> file, const std::string& name);

/// Decodes a JPEG or PNG into u8 [height, width, 3] or [height, width, 1]. Throws as image_size,
/// and when the image is cut short. EXIF rotation is not applied.
Array decode_image(std::span<const std::byte> file, Channels channels, const std::string& name);

/// Throws DataError when `size` is above 64 Mpx or, at `pixels_per_byte`, beyond what `bytes` hold.
void check_image_claim(const ImageSize& size, size_t bytes, size_t pixels_per_byte,
                       const std::string& name);

}  // namespace accel
