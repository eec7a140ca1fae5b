// The run of a test's tracker.
#pragma once

#include <string>

#include "core/api/tracker.h"
#include "tests/unit/build_component.h"

namespace accel {

/// A run named "run".
inline TrackerContext run_in(const std::string& run_dir, int64_t first_step = 0) {
  return {.run_dir = run_dir, .run_name = "run", .first_step = first_step, .ids = {}};
}

}  // namespace accel
