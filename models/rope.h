// Rotary position embedding: positions as turns of pairs of numbers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "core/batch.h"
#include "core/registry.h"

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

/// How fast the pairs turn from one position to the next, and how a model that was trained on short
/// texts turns slower to see longer ones.
struct RopeOptions {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_factor = 1.0;
  double high_factor = 4.0;
  int64_t trained_context = 8192;

  static Schema<RopeOptions> schema();
  /// Reads `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of earlier ones.
  static RopeOptions from_config(HfConfig& config);
  void to_config(nlohmann::json& config) const;
};

/// Cosines and sines of each position, [length, width] in float32.
struct RopeTurns {
  at::Tensor cosines, sines;
};

class Rope {
 public:
  /// `width` numbers in a head, of which the first and second half make pairs.
  Rope(const RopeOptions& options, int64_t width);

  /// Of `length` positions from `first` on.
  RopeTurns turns(int64_t first, int64_t length, at::Device device) const;
  /// `x` is [batch, heads, length, width].
  static at::Tensor turn(const at::Tensor& x, const RopeTurns& turns);

 private:
  at::Tensor speeds_;  ///< radians per position, of each pair
};

}  // namespace accel
