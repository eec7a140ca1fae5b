// Options of mixed precision, without libtorch as the whole recipe.
#pragma once

#include "core/recipe/schema.h"

namespace accel {

/// Accelerate's names.
enum class MixedPrecision { kNo, kFp16, kBf16 };

template <>
struct EnumNames<MixedPrecision> {
  static constexpr std::pair<MixedPrecision, const char*> kValues[] = {
      {MixedPrecision::kNo, "no"},
      {MixedPrecision::kFp16, "fp16"},
      {MixedPrecision::kBf16, "bf16"}};
};

/// Loss scaling of fp16; PyTorch's names and defaults.
struct ScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;

  bool operator==(const ScalerOptions&) const = default;
  static Schema<ScalerOptions> schema();
};

}  // namespace accel
