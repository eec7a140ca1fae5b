// In what two runs differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accel {

/// Everything in which the newest checkpoints that two run folders both have differ, and the step
/// of these; nothing when they have none in common. Throws CheckpointError.
struct CheckpointDifference {
  int64_t step = 0;
  std::vector<std::string> lines;
};
std::optional<CheckpointDifference> checkpoint_difference(const std::string& run_a,
                                                          const std::string& run_b);

/// Options that differ between the resolved recipes of two run folders, as
/// "optimizer.lr is 0.1 and 0.2". Throws Error for a folder without one.
std::vector<std::string> recipe_differences(const std::string& run_a, const std::string& run_b);

}  // namespace accel
