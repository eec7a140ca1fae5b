// Multi-head model: named outputs for several tasks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/api/model.h"

namespace accel {

/// forward() returns the heads' outputs concatenated in the order of heads(): [batch, all].
class MultiHead : public Model {
 public:
  /// Width of each head's output by name.
  virtual const std::map<std::string, int64_t>& heads() const = 0;
};

}  // namespace accel
