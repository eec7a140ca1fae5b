// Options that a run takes another value of while it trains.
#pragma once

#include <string>
#include <vector>

#include "runner/job/job.h"

namespace accel {

/// Their keys.
const std::vector<std::string>& live_options();

struct LiveChange {
  std::string key;
  std::string was;  ///< as a recipe would have it
  std::string is;

  /// "optimizer.lr=0.0001"
  std::string order() const { return key + "=" + is; }
};

/// Reads "key=value" as the command line does; `lr` is short for optimizer.lr. Throws Error
/// (kRecipe) unless it is an option of the above with a value that the recipe may have.
LiveChange read_change(const Job& job, const std::string& order);

/// The value of a dotted key in a resolved recipe, as a recipe would have it; "" for none.
std::string option_text(const Node& recipe, const std::string& key);

/// Sets it: the job goes on as one that is resumed with this value. All ranks call it.
void apply_change(Job& job, const LiveChange& change);

}  // namespace accel
