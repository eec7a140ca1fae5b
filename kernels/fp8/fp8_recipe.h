// Choices of fp8 training, without libtorch as the recipe.
#pragma once

#include <utility>

#include "core/recipe/codec.h"

namespace accel {

/// How scales are found: torchao's recipes of dynamic scaling, and Transformer Engine's delayed
/// scaling.
enum class Fp8Recipe { kTensorwise, kRowwise, kRowwiseGwHp, kDelayed };

template <>
struct EnumNames<Fp8Recipe> {
  static constexpr std::pair<Fp8Recipe, const char*> kValues[] = {
      {Fp8Recipe::kTensorwise, "tensorwise"},
      {Fp8Recipe::kRowwise, "rowwise"},
      {Fp8Recipe::kRowwiseGwHp, "rowwise_gw_hp"},
      {Fp8Recipe::kDelayed, "delayed"}};
};

/// Types of delayed scaling: hybrid has e4m3 in forward and e5m2 for gradients.
enum class Fp8Format { kHybrid, kE4m3 };

template <>
struct EnumNames<Fp8Format> {
  static constexpr std::pair<Fp8Format, const char*> kValues[] = {{Fp8Format::kHybrid, "hybrid"},
                                                                  {Fp8Format::kE4m3, "e4m3"}};
};

/// The amax of a history from which delayed scaling computes the next scale.
enum class AmaxAlgorithm { kMostRecent, kMax };

template <>
struct EnumNames<AmaxAlgorithm> {
  static constexpr std::pair<AmaxAlgorithm, const char*> kValues[] = {
      {AmaxAlgorithm::kMostRecent, "most_recent"}, {AmaxAlgorithm::kMax, "max"}};
};

/// The three matrix products of a linear layer: output, gradient of the input, and gradient of the
/// weight.
enum class LinearProduct { kFprop, kDgrad, kWgrad };

template <>
struct EnumNames<LinearProduct> {
  static constexpr std::pair<LinearProduct, const char*> kValues[] = {
      {LinearProduct::kFprop, "fprop"},
      {LinearProduct::kDgrad, "dgrad"},
      {LinearProduct::kWgrad, "wgrad"}};
};

}  // namespace accel
