// Rotary position embedding (RoPE, Su et al. 2021, arXiv:2104.09864).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/api/batch.h"
#include "core/recipe/registry.h"

namespace accel {

class HfConfig;

enum class RopeScaling { kNone, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

template <>
struct EnumNames<RopeScaling> {
  static constexpr std::pair<RopeScaling, const char*> kValues[] = {
      {RopeScaling::kNone, "none"},         {RopeScaling::kLinear, "linear"},
      {RopeScaling::kDynamic, "dynamic"},   {RopeScaling::kYarn, "yarn"},
      {RopeScaling::kLongRope, "longrope"}, {RopeScaling::kLlama3, "llama3"}};
};

/// What a config's section of rotary positions leaves to the rest of the config.
struct RopeDefaults {
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  int64_t context = 0;                   ///< max_position_embeddings
  std::optional<int64_t> original = {};  ///< original_max_position_embeddings outside the section
  bool is_phi3 = false;                  ///< where "su" and "yarn" are names of longrope
};

/// Rotation frequencies, and their scaling for contexts longer than in training.
struct RopeOptions {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_factor = 1.0;
  double high_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  double partial_rotary_factor = 1.0;
  Auto<double> attention_factor = {};
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  std::vector<double> short_factor = {}, long_factor = {};

  static Schema<RopeOptions> schema();
  /// Reports options that contradict each other, for heads of `width`.
  void check(int64_t width, const Node& node, Reading& reading) const;
  /// Reads a section in the form of transformers 5 or of earlier versions; collects its problems.
  static RopeOptions from_section(HfConfig& section, const RopeDefaults& defaults);
  /// Reads `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of earlier
  /// versions.
  static RopeOptions from_config(HfConfig& config, RopeDefaults defaults);
  /// The section in the form of transformers 5.
  nlohmann::json to_section() const;
  /// Writes the section as `rope_parameters`.
  void to_config(nlohmann::json& config) const;

  /// Whether frequencies depend on the length of a sequence.
  bool depends_on_length() const {
    return scaling == RopeScaling::kDynamic || scaling == RopeScaling::kLongRope;
  }
};

/// Radians per position of a pair that has `speed` without scaling, with that of Llama 3:
/// wavelengths that the original context holds several times keep their speed.
float llama3_speed(const RopeOptions& options, float speed);
/// Factor of cosines and sines.
double attention_factor_of(const RopeOptions& options);

/// Cosines and sines per position, [length, rotary width] in float32; undefined: no rotation.
struct RopeTurns {
  at::Tensor cosines, sines;
};

class Rope {
 public:
  /// `width` is the head size, of which the first `partial_rotary_factor` is rotated: element i
  /// with element i + half of that.
  Rope(const RopeOptions& options, int64_t width);

  /// For `length` positions starting at `first`, in sequences of up to `longest` tokens.
  RopeTurns turns(int64_t first, int64_t length, int64_t longest, at::Device device) const;
  /// For `positions` [batch, count], of frequencies that do not depend on the length:
  /// [batch, 1, count, rotary width].
  RopeTurns turns_of_rows(const at::Tensor& positions) const;
  /// Whether sequences of these lengths have different frequencies.
  bool changes_between(int64_t length, int64_t other) const;
  bool depends_on_length() const { return options_.depends_on_length(); }
  /// `x` is [batch, heads, length, width].
  static at::Tensor turn(const at::Tensor& x, const RopeTurns& turns);

 private:
  RopeTurns turns_of(const at::Tensor& angles_of_pairs) const;
  const at::Tensor& speeds_on(at::Device device) const;

  RopeOptions options_;
  int64_t rotated_;           ///< elements of a head
  at::Tensor speeds_;         ///< radians per position and pair
  at::Tensor long_speeds_;    ///< of longrope in sequences beyond the original context
  mutable at::Tensor moved_;  ///< `speeds_` on the device of the last turns: a copy waits for it
  double attention_factor_;   ///< of cosines and sines
};

}  // namespace accel
