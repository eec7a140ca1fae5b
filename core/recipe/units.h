// Durations and sizes with units: `500 steps`, `3 epochs`, `5%`, `90 min`, `4 GiB`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// Length of a phase or interval. A bare integer in a recipe means steps.
struct Duration {
  enum class Unit { kSteps, kEpochs, kSamples, kTokens, kSeconds, kPercent };

  double value = 0;  ///< in `unit`; seconds for min and h, 0..100 for percent of the whole run
  Unit unit = Unit::kSteps;

  bool operator==(const Duration&) const = default;
};

/// Several durations, whichever comes first; empty means never. `500 steps` or `[500 steps, 30
/// min]`.
using Durations = std::vector<Duration>;

/// A list of one.
Durations just(double value, Duration::Unit unit);

/// "500 steps", "30 min", "6%": the text a recipe would use.
std::string to_string(const Duration& duration);

/// A number of bytes: `4 GiB`, `10 MB`, `4096`.
struct ByteSize {
  int64_t bytes = 0;
  bool operator==(const ByteSize&) const = default;
};

/// "4 GiB" when exact in a binary unit, else the plain number.
std::string to_string(const ByteSize& size);

}  // namespace accel
