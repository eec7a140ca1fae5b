// What Accelerate's variables say of a run: a script under Accelerate would read them too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/diagnostic.h"
#include "core/node.h"

namespace accel {

/// Names and values, the prefix `ACCELERATE_` included.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Those of this process that begin with `ACCELERATE_`, sorted by name.
Variables accelerate_variables();

struct EnvironmentLayer {
  Node tree = {Node::Map{}, {}};
  std::vector<std::string> warnings;  ///< what has no effect
};

/// The variables as a layer under all others. One that would change the run and is not supported is
/// a problem when it is on.
EnvironmentLayer environment_layer(const Variables& variables, Diagnostics& problems);

}  // namespace accel
