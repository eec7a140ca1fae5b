// Values in the formats of trackers: options, CSV fields, histograms and images.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/api/tracker.h"
#include "core/base/array.h"

namespace accel {

/// A flattened option, for trackers that sort and filter runs by options.
using ConfigValue = std::variant<bool, double, std::string>;

/// "true" and "false" are booleans, texts of finite numbers are numbers, others are texts.
ConfigValue config_value(const std::string& text);

/// As Python's json module: NaN, Infinity and -Infinity for values that are not finite.
std::string python_json(double value);

/// A JSON number; values that are not finite become the strings "NaN", "Infinity", "-Infinity".
std::string quoted_python_json(double value);

/// config_value() as JSON.
std::string config_json(const std::string& text);

/// A row of a CSV table (RFC 4180) with its newline. Fields are quoted where needed; line breaks in
/// them become spaces.
std::string csv_line(const std::vector<std::string>& fields);

/// The shortest text that parses to the same double; "nan", "inf" and "-inf" as pandas reads
/// them.
std::string csv_number(double value);

/// A histogram of W&B and Trackio: {"_type":TYPE,"values":[counts],"bins":[edges]} with 64 buckets
/// of equal width. Skips values that are not finite; "" when none is finite.
std::string histogram_json(const char* type, std::span<const float> values);

/// The image of sample `index` of an array [samples, channels, height, width] with 1 or 3 channels
/// of F32 or U8. Floats are scaled from the sample's minimum (black) to its maximum (white). Null
/// for other inputs.
std::optional<Picture> picture_of(const Array& inputs, int64_t index);

/// Writes a PNG file in `root`: write_file_within().
void write_picture(const std::string& root, const std::string& path, const Picture& picture);

}  // namespace accel
