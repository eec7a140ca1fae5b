// Help texts and rules of options that several optimizers have.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/rules.h"

namespace accel {

inline constexpr auto kLrHelp = "Learning rate. Higher trains faster until it becomes unstable.";
inline constexpr auto kWeightDecayHelp = "L2 penalty, added to the gradient.";
inline constexpr auto kDecoupledDecayHelp =
    "Decoupled weight decay: an update scales weights by 1 - lr * weight_decay.";
inline constexpr auto kEpsHelp = "Added to the denominator for numerical stability.";
inline constexpr auto kMaximizeHelp = "Maximize the objective instead of minimizing it.";

/// The names that other trainers have for these options.
inline std::vector<std::string> lr_names() {
  return {"learning_rate", "base_lr", "peak_lr", "max_lr", "initial_lr", "lr0"};
}
inline std::vector<std::string> weight_decay_names() {
  return {"wd", "l2"};
}
inline std::vector<std::string> eps_names() {
  return {"adam_epsilon", "adam_eps", "epsilon"};
}

/// The decay rates of two moving averages.
inline Rule<std::vector<double>> two_decay_rates() {
  return {[](const std::vector<double>& v) {
            return v.size() == 2 && within(0.0, 1.0).holds(v[0]) && within(0.0, 1.0).holds(v[1]);
          },
          "two numbers in [0, 1)", "\"minItems\": 2, \"maxItems\": 2"};
}

}  // namespace accel
