// Writes PNG images.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runner/formats/image.h"

namespace accel {

/// The bytes of a PNG file. `channels` is 1 (grey) or 3 (red, green, blue); `pixels` holds the rows
/// one after the other. Throws std::logic_error when these do not agree.
std::string encode_png(const ImageSize& size, int64_t channels, std::span<const uint8_t> pixels);

}  // namespace accel
