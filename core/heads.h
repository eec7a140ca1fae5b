// A model with several outputs that tasks tell apart.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/model.h"

namespace accel {

/// forward() gives the heads' outputs side by side, in the order of heads(): [batch, all].
class MultiHead : public Model {
 public:
  /// By name, how many numbers each head gives.
  virtual const std::map<std::string, int64_t>& heads() const = 0;
};

}  // namespace accel
