// The `layer_decay` option of every optimizer: the deeper a layer lies below the model's output,
// the smaller its learning rate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/batch.h"

namespace accel {

/// Parameters of one rate.
struct RatedParameters {
  std::vector<NamedTensor> parameters;
  double factor = 1;  ///< of the group's learning rate
};

/// How far each parameter lies below the output. A layer is what shares a name up to its first
/// number: 'h.0.attn.weight' and 'h.0.mlp.weight' are one, and the next one begins with 'h.1'. What
/// comes before the first layer (embeddings) lies below it, what comes after the last above all.
class LayerRates {
 public:
  /// `decay` of 1 has no layers. Throws Error (kRecipe) when another finds none in the names.
  LayerRates(const std::vector<NamedTensor>& parameters, double decay);

  /// Parts of a group, the lowest layer first.
  std::vector<RatedParameters> split(const std::vector<NamedTensor>& group) const;

 private:
  double decay_;
  std::map<std::string, size_t> distance_;  ///< by name
};

}  // namespace accel
