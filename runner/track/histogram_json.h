// Histograms as W&B and Trackio log them.
#pragma once

#include <span>
#include <string>

namespace accel {

/// {"_type":TYPE,"values":[counts],"bins":[edges]}: 64 buckets of one width. Values that are not
/// finite are left out; "" when none is left.
std::string histogram_json(const char* type, std::span<const float> values);

}  // namespace accel
