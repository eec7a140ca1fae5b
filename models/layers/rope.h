// Rotary position embedding (RoPE).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "core/api/batch.h"
#include "core/recipe/registry.h"

namespace accel {

class HfConfig;

enum class RopeScaling { kNone, kLinear, kLlama3 };

template <>
struct EnumNames<RopeScaling> {
  static constexpr std::pair<RopeScaling, const char*> kValues[] = {
      {RopeScaling::kNone, "none"},
      {RopeScaling::kLinear, "linear"},
      {RopeScaling::kLlama3, "llama3"}};
};

/// Rotation frequencies, and their scaling for contexts longer than in training.
struct RopeOptions {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_factor = 1.0;
  double high_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;

  static Schema<RopeOptions> schema();
  /// Reads `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of earlier
  /// versions.
  static RopeOptions from_config(HfConfig& config);
  void to_config(nlohmann::json& config) const;
};

/// Cosines and sines per position, [length, width] in float32.
struct RopeTurns {
  at::Tensor cosines, sines;
};

class Rope {
 public:
  /// `width` is the head size; element i is paired with element i + width / 2.
  Rope(const RopeOptions& options, int64_t width);

  /// For `length` positions starting at `first`.
  RopeTurns turns(int64_t first, int64_t length, at::Device device) const;
  /// `x` is [batch, heads, length, width].
  static at::Tensor turn(const at::Tensor& x, const RopeTurns& turns);

 private:
  at::Tensor speeds_;  ///< radians per position and pair
};

}  // namespace accel
