#include "runner/plan/number_text.h"

#include <initializer_list>

#include "core/base/formatted.h"

namespace accel {
namespace {

/// Three digits with the largest unit below the value.
std::string scaled(double value, double base, std::initializer_list<const char*> units) {
  const auto* unit = units.begin();
  while (value >= base * 0.9995 && unit + 1 != units.end()) {
    value /= base;
    ++unit;
  }
  const int digits = value >= 99.95 || unit == units.begin() ? 0 : value >= 9.995 ? 1 : 2;
  return formatted("%.*f %s", digits, value, *unit);
}

}  // namespace

std::string with_commas(int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string bytes_text(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string flop_text(double flops) {
  return scaled(flops, 1000, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
}

}  // namespace accel
