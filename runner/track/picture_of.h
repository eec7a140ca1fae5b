// Samples as pictures that trackers can show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/array.h"
#include "core/tracker.h"

namespace accel {

/// Sample `index` of [samples, channels, height, width], with 1 or 3 channels of F32 or U8. Floats
/// are spread from black, the sample's least value, to white. Null for inputs that are no images.
std::optional<Picture> picture_of(const Array& inputs, int64_t index);

/// Writes a PNG file, whole or not at all; makes its folder. Throws IoError.
void write_picture(const std::string& path, const Picture& picture);

}  // namespace accel
