#include "runner/report/ladder.h"

#include <cmath>

namespace accel {

std::vector<double> ladder(double low, double high, int count) {
  const double span = high - low;
  if (!(span > 0) || !std::isfinite(span)) return {};
  const double rough = span / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double factor = rough / power;
  const double rung = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
  std::vector<double> out;
  const double first = std::ceil(low / rung);
  for (int i = 0; i <= 2 * count; ++i) {
    const double value = (first + i) * rung;
    if (value > high) break;
    out.push_back(value == 0 ? 0 : value);  // no "-0"
  }
  return out;
}

std::vector<double> power_ladder(double low, double high) {
  std::vector<double> powers, between;
  if (!(low > 0) || !(high > low) || !std::isfinite(high)) return {};
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  const int stride = 1 + (last - first) / 8;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, exponent);
      if (value < low || value > high) continue;
      between.push_back(value);
      if (factor == 1.0 && (exponent - first) % stride == 0) powers.push_back(value);
    }
  }
  return powers.size() < 2 ? between : powers;
}

}  // namespace accel
