#include "track/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "core/base/folders.h"
#include "core/base/json_text.h"
#include "formats/image/image.h"

namespace accel {

ConfigValue config_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && std::isfinite(number)) return number;
  return text;
}

std::string python_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return json_number(value);
}

std::string quoted_python_json(double value) {
  const std::string text = python_json(value);
  return std::isfinite(value) ? text : '"' + text + '"';
}

std::string config_json(const std::string& text) {
  const ConfigValue value = config_value(text);
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&value)) return json_number(*number);
  return json_text(text);
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    if (fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += fields[i];
      continue;
    }
    line += '"';
    for (const char c : fields[i]) {
      if (c == '"') line += '"';
      line += c == '\n' || c == '\r' ? ' ' : c;
    }
    line += '"';
  }
  return line + '\n';
}

std::string csv_number(double value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string histogram_json(const char* type, std::span<const float> values) {
  constexpr size_t kBuckets = 64;
  std::vector<float> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](float value) { return std::isfinite(value); });
  if (finite.empty()) return "";
  const auto [least, most] = std::minmax_element(finite.begin(), finite.end());
  const bool flat = *least == *most;
  const double low = flat ? *least - 0.5 : *least, high = flat ? *most + 0.5 : *most;
  const double width = (high - low) / kBuckets;
  std::vector<int64_t> counts(kBuckets);
  for (const float value : finite) {
    ++counts[std::min(kBuckets - 1, static_cast<size_t>((value - low) / width))];
  }
  std::string text = "{\"_type\":\"" + std::string(type) + "\",\"values\":[";
  for (size_t i = 0; i < kBuckets; ++i) text += (i ? "," : "") + std::to_string(counts[i]);
  text += "],\"bins\":[" + json_number(low);
  for (size_t i = 1; i <= kBuckets; ++i) {
    text += ',' + json_number(i == kBuckets ? high : low + width * static_cast<double>(i));
  }
  return text + "]}";
}

namespace {

/// Min-max scaling to bytes; values that are not finite become 0.
std::vector<uint8_t> scaled_to_bytes(std::span<const float> values) {
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
    planes = scaled_to_bytes(inputs.as<float>().subspan(start, size));
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

void write_picture(const std::string& root, const std::string& path, const Picture& picture) {
  write_file_within(root, path,
                    encode_png({picture.height, picture.width}, picture.channels, picture.pixels));
}

}  // namespace accel
