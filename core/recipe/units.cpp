#include "core/recipe/units.h"

#include <array>
#include <cmath>
#include <string_view>

#include "core/recipe/number_text.h"

namespace accel {
namespace {

std::string count_text(double value, std::string_view unit) {
  return show_number(value) + ' ' + std::string(unit) + (value == 1 ? "" : "s");
}

std::string seconds_text(double seconds) {
  const auto divides = [seconds](double unit) {
    return seconds > 0 && std::fmod(seconds, unit) == 0;
  };
  constexpr double kHour = 3600, kMinute = 60;
  if (divides(kHour)) return show_number(seconds / kHour) + " h";
  if (divides(kMinute)) return show_number(seconds / kMinute) + " min";
  return show_number(seconds) + " s";
}

}  // namespace

Durations just(double value, Duration::Unit unit) {
  return Durations(1, Duration{value, unit});
}

std::string to_string(const Duration& duration) {
  switch (duration.unit) {
    case Duration::Unit::kSteps:
      return count_text(duration.value, "step");
    case Duration::Unit::kEpochs:
      return count_text(duration.value, "epoch");
    case Duration::Unit::kSamples:
      return count_text(duration.value, "sample");
    case Duration::Unit::kTokens:
      return count_text(duration.value, "token");
    case Duration::Unit::kSeconds:
      return seconds_text(duration.value);
    case Duration::Unit::kPercent:
      break;
  }
  return show_number(duration.value) + '%';
}

std::string to_string(const ByteSize& size) {
  constexpr std::array kUnits = {"TiB", "GiB", "MiB", "KiB"};
  int64_t unit = int64_t{1} << 40;
  for (const char* name : kUnits) {
    if (size.bytes > 0 && size.bytes % unit == 0)
      return std::to_string(size.bytes / unit) + ' ' + name;
    unit >>= 10;
  }
  return std::to_string(size.bytes);
}

}  // namespace accel
