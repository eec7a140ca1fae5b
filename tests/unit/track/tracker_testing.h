// Builds trackers as a recipe does.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "core/registry.h"
#include "core/tracker.h"

namespace accel {

/// A run named "run".
inline TrackerContext run_in(const std::string& run_dir, int64_t first_step = 0) {
  return {.run_dir = run_dir, .run_name = "run", .first_step = first_step, .ids = {}};
}

inline std::unique_ptr<Tracker> make_tracker(const std::string& yaml,
                                             const TrackerContext& context) {
  static const Registry registry = [] {
    Registry all;
    Registration::enter_all(all);
    return all;
  }();
  Diagnostics problems;
  Reading reading{problems, registry};
  const Ref<Tracker> ref =
      registry.of<Tracker>().prepare(parse_recipe("recipe.yaml", yaml), reading);
  problems.check();
  return ref.make(context);
}

}  // namespace accel
