// Interpolation of image resizing: the weights of pixels, as in Pillow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/recipe/codec.h"

namespace accel {

/// Interpolation mode. Bilinear and bicubic average over all covered pixels when downscaling.
enum class Interpolation { kBilinear, kBicubic, kNearest };

template <>
struct EnumNames<Interpolation> {
  static constexpr std::pair<Interpolation, const char*> kValues[] = {
      {Interpolation::kBilinear, "bilinear"},
      {Interpolation::kBicubic, "bicubic"},
      {Interpolation::kNearest, "nearest"}};
};

/// The weighted inputs of each output pixel along one axis.
struct FilterTaps {
  struct Output {
    int64_t first;  ///< the first input
    int64_t count;  ///< of inputs, at least 1
    size_t begin;   ///< of their weights
  };

  std::vector<Output> outputs;
  std::vector<double> weights;  ///< of one output after the other; their sums are 1
};

/// Of `from` pixels resized to `to`, each at least 1. Equal sizes: each pixel is itself.
FilterTaps filter_taps(int64_t from, int64_t to, Interpolation interpolation);

}  // namespace accel
