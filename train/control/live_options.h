// Options that can be changed while a run trains.
#pragma once

#include <string>
#include <vector>

#include "train/job/job.h"

namespace accel {

/// Their keys.
const std::vector<std::string>& live_options();

struct LiveChange {
  std::string key;
  std::string was;  ///< in a recipe's notation
  std::string is;

  /// "optimizer.lr=0.0001"
  std::string command() const { return key + "=" + is; }
};

/// Reads "key=value" as the command line does; `lr` is short for optimizer.lr. Throws Error
/// (kRecipe) for other options than live_options() and for invalid values.
LiveChange read_change(const Job& job, const std::string& command);

/// The value of a dotted key in a resolved recipe, in a recipe's notation; "" without a value.
std::string option_text(const Node& recipe, const std::string& key);

/// Sets the option: the job continues as one resumed with this value. All ranks call it.
void apply_change(Job& job, const LiveChange& change);

}  // namespace accel
