// Options of mixed precision, without libtorch as the whole recipe.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/schema.h"
#include "kernels/fp8/fp8_recipe.h"

namespace accel {

/// Accelerate's names.
enum class MixedPrecision { kNo, kFp16, kBf16, kFp8 };

template <>
struct EnumNames<MixedPrecision> {
  static constexpr std::pair<MixedPrecision, const char*> kValues[] = {
      {MixedPrecision::kNo, "no"},
      {MixedPrecision::kFp16, "fp16"},
      {MixedPrecision::kBf16, "bf16"},
      {MixedPrecision::kFp8, "fp8"}};
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

/// Linear layers in fp8. Names and defaults of delayed scaling are Accelerate's.
struct Fp8Section {
  Fp8Recipe recipe = Fp8Recipe::kTensorwise;
  Fp8Format format = Fp8Format::kHybrid;
  int64_t margin = 0;
  int64_t interval = 1;
  int64_t amax_history_len = 1024;
  AmaxAlgorithm amax_compute_algo = AmaxAlgorithm::kMostRecent;
  std::vector<LinearProduct> override_linear_precision;
  bool all_gather = false;
  bool pad_inner_dim = true;
  Auto<bool> use_autocast_during_eval;
  Auto<std::vector<std::string>> filter;

  /// Whether all options have their defaults.
  bool is_default() const;
  static Schema<Fp8Section> schema();
};

}  // namespace accel
