// Delayed scaling of fp8, as Transformer Engine: the scales of a step follow from the largest
// magnitudes (amax) of the steps before it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <array>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "kernels/fp8/fp8_recipe.h"

namespace accel {

/// Transformer Engine's names; the defaults are Accelerate's.
struct DelayedOptions {
  Fp8Format format = Fp8Format::kHybrid;
  int64_t margin = 0;    ///< scales are divided by 2^margin
  int64_t interval = 1;  ///< updates from one computation of scales to the next
  int64_t amax_history_len = 1024;
  AmaxAlgorithm amax_compute_algo = AmaxAlgorithm::kMostRecent;
};

/// The scale of one operand, and where its amax goes: views of DelayedScales, both float32 [].
struct DelayedScale {
  at::Tensor scale;
  at::Tensor amax;
};

/// Input, weight and gradient of the output of a layer.
constexpr int64_t kFp8Operands = 3;
using DelayedScalesOfLayer = std::array<DelayedScale, kFp8Operands>;

/// The scales, initially 1, and histories of a model's layers.
class DelayedScales {
 public:
  /// `layers`: unique names.
  DelayedScales(const DelayedOptions& options, std::vector<std::string> layers, at::Device device);

  DelayedScalesOfLayer of_layer(size_t layer) const;
  /// The float8 type of an operand, 0 to kFp8Operands - 1.
  static at::ScalarType type_of(int64_t operand, Fp8Format format);

  /// Enters the magnitudes since the last call in the histories, and computes new scales. `reduce`
  /// takes their maxima over ranks in place, float32 [operands].
  void update(c10::function_ref<void(const at::Tensor& amax)> reduce);

  /// Adds tensors `history/LAYER`, [amax_history_len, 3], and `scale/LAYER`, [3].
  void save(StateDict& state) const;
  /// Returns the layers without saved scales, which start again. Throws CheckpointError for a
  /// history of another length.
  std::vector<std::string> load(const StateDict& state);

 private:
  DelayedOptions options_;
  std::vector<std::string> layers_;
  at::Tensor
      history_;        ///< [amax_history_len, operands]: row 0 is of this step, the next the oldest
  at::Tensor scales_;  ///< [operands]
  at::Tensor most_;    ///< [operands]: fp8_max() of the types
  int64_t updates_ = 0;
};

}  // namespace accel
