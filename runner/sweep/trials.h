// The runs that a sweep is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/sweep/sweep_file.h"

namespace accel {

/// One recipe key with the value it has in a trial.
struct TrialValue {
  std::string key;
  Node value;  ///< with the place in the sweep's file
};

struct Trial {
  std::string name;                ///< of its folder: "trial_007"
  std::vector<TrialValue> values;  ///< what tells it from the others
};

/// All of them, in a fixed order: each combination of the grid, with each row of the paired lists,
/// with each draw. A draw depends on the seed, its number and the key alone. Throws RecipeError for
/// more than 10,000.
std::vector<Trial> trials_of(const SweepOptions& sweep);

/// "optimizer.lr=0.01", as on a command line.
std::string override_text(const TrialValue& value);

/// A value for people: "0.01", "[64, 64]".
std::string value_text(const TrialValue& value);

}  // namespace accel
