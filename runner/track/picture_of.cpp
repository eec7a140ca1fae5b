#include "runner/track/picture_of.h"

#include <algorithm>
#include <cmath>

#include "runner/formats/png_writer.h"
#include "runner/track/append_file.h"

namespace accel {
namespace {

/// Bytes in the same order; what is not finite is black.
std::vector<uint8_t> spread(std::span<const float> values) {
  float least = INFINITY, most = -INFINITY;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const float scale = most > least ? 255 / (most - least) : 0;
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size());
  for (const float value : values) {
    const float shade = std::isfinite(value) ? (value - least) * scale : 0;
    bytes.push_back(static_cast<uint8_t>(std::lround(std::clamp(shade, 0.0f, 255.0f))));
  }
  return bytes;
}

}  // namespace

std::optional<Picture> picture_of(const Array& inputs, int64_t index) {
  const Shape& shape = inputs.shape();
  const bool known = inputs.type() == DType::kF32 || inputs.type() == DType::kU8;
  if (inputs.empty() || !known || shape.size() != 4 || index >= shape[0]) return std::nullopt;
  Picture picture;
  picture.channels = shape[1];
  picture.height = shape[2];
  picture.width = shape[3];
  const auto area = static_cast<size_t>(picture.height * picture.width);
  const auto size = static_cast<size_t>(picture.channels) * area;
  if ((picture.channels != 1 && picture.channels != 3) || area == 0) return std::nullopt;
  const size_t start = static_cast<size_t>(index) * size;
  std::vector<uint8_t> planes;
  if (inputs.type() == DType::kF32) {
    planes = spread(inputs.as<float>().subspan(start, size));
  } else {
    const auto bytes = inputs.as<uint8_t>().subspan(start, size);
    planes.assign(bytes.begin(), bytes.end());
  }
  picture.pixels.resize(size);
  const auto channels = static_cast<size_t>(picture.channels);
  for (size_t at = 0; at < size; ++at) {
    picture.pixels[at % area * channels + at / area] = planes[at];
  }
  return picture;
}

void write_picture(const std::string& path, const Picture& picture) {
  const std::string bytes =
      encode_png({picture.height, picture.width}, picture.channels, picture.pixels);
  replace_file(path, [&](AppendFile& file) { file.append(bytes); });
}

}  // namespace accel
