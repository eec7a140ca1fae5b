// PNG by libpng, with the pixels that Pillow gives.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/array.h"
#include "runner/formats/image.h"

namespace accel {

bool is_png(std::span<const std::byte> file);

/// As image_size.
ImageSize png_size(std::span<const std::byte> file, const std::string& name);

/// u8 [height, width, 1] of a grey image, else [height, width, 3] in RGB. Palettes are expanded,
/// 16-bit values keep their high byte, alpha is dropped. Throws as decode_image.
Array decode_png(std::span<const std::byte> file, const std::string& name);

}  // namespace accel
