// JPEG by libjpeg-turbo, with the pixels that Pillow gives.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/array.h"
#include "runner/formats/image.h"

namespace accel {

bool is_jpeg(std::span<const std::byte> file);

/// As image_size.
ImageSize jpeg_size(std::span<const std::byte> file, const std::string& name);

/// u8 [height, width, 1] of a grey image, else [height, width, 3] in RGB, CMYK ones converted.
/// Throws as decode_image.
Array decode_jpeg(std::span<const std::byte> file, const std::string& name);

}  // namespace accel
