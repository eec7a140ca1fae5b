// The `layer_decay` option of every optimizer: layer-wise learning rate decay towards the input.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/api/batch.h"

namespace accel {

/// Parameters with one learning rate.
struct RatedParameters {
  std::vector<Parameter> parameters;
  double factor = 1;  ///< of the group's learning rate
};

/// Distance of each parameter from the output, in layers. Parameters of a layer share a name up to
/// its first number: 'h.0.attn.weight' and 'h.0.mlp.weight' are of layer 'h.0'. Parameters before
/// the first layer (embeddings) are below it, those after the last are at the top.
class LayerRates {
 public:
  /// `decay` 1: no layers. Throws Error (kRecipe) for another value when names have no layers.
  LayerRates(const std::vector<Parameter>& parameters, double decay);

  /// The layers of a group, the lowest first.
  std::vector<RatedParameters> split(const std::vector<Parameter>& group) const;

 private:
  double decay_;
  std::map<std::string, size_t> distance_;  ///< by name
};

}  // namespace accel
