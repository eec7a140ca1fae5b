// Options that several optimizers declare in the same words.
#pragma once

#include <string>
#include <vector>

#include "core/rules.h"

namespace accel {

inline constexpr auto kLrHelp = "Learning rate: how far one update moves.";
inline constexpr auto kWeightDecayHelp = "L2 penalty, added to the gradient.";
inline constexpr auto kDecoupledDecayHelp =
    "Shrinks the weights by lr * weight_decay per update, apart from the gradient.";
inline constexpr auto kEpsHelp = "Added to the divisor, against division by zero.";
inline constexpr auto kMaximizeHelp = "Climb instead of descend.";

/// The decay rates of two moving averages.
inline Rule<std::vector<double>> two_decay_rates() {
  return {[](const std::vector<double>& v) {
            return v.size() == 2 && within(0.0, 1.0).holds(v[0]) && within(0.0, 1.0).holds(v[1]);
          },
          "two numbers in [0, 1)", "\"minItems\": 2, \"maxItems\": 2"};
}

}  // namespace accel
