#include "runner/track/histogram_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/json_text.h"

namespace accel {

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

}  // namespace accel
