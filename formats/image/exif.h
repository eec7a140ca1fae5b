// EXIF orientation of JPEG and PNG images.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/array.h"
#include "formats/image/image.h"

namespace accel {

/// 1 to 8 as EXIF numbers them; 1, upright, for an image without one or with another value.
int exif_orientation(std::span<const std::byte> file);

/// u8 [height, width, channels] turned and mirrored as Pillow's ImageOps.exif_transpose().
Array upright(const Array& pixels, int orientation);

/// The size of upright() pixels.
ImageSize upright_size(const ImageSize& size, int orientation);

}  // namespace accel
