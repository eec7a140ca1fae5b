#include "core/api/sample_rng.h"

#include <cmath>
#include <numbers>

namespace accel {
namespace {

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ULL;

}  // namespace

SampleRng::SampleRng(uint64_t seed, uint64_t epoch, uint64_t sample)
    : state_(mix(mix(mix(seed + kGamma) + epoch + kGamma) + sample + kGamma)) {}

uint64_t SampleRng::next() {
  return mix(state_ += kGamma);
}

double SampleRng::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

uint64_t SampleRng::below(uint64_t bound) {
  // Rejects the few values above the largest multiple of `bound`.
  const uint64_t limit = -bound % bound;
  uint64_t value = next();
  while (value < limit) value = next();
  return value % bound;
}

double SampleRng::normal() {
  const double u = 1.0 - uniform();  // in (0, 1]: the logarithm stays finite
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace accel
