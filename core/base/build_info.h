// Versions of this binary, for `accel-run --version` and checkpoints.
#pragma once

#include <string_view>

namespace accel {

struct BuildInfo {
  std::string_view version;  ///< of accel-run, as "0.1.0"
  std::string_view commit;   ///< short git commit, or "unknown" outside a checkout
  std::string_view torch;  ///< of the libtorch it was compiled for, as "2.11.0"; empty without one
};

BuildInfo build_info();

}  // namespace accel
