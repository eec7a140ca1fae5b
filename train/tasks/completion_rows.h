// Rollouts as rows of the completion log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/tasks/rollouts.h"

namespace accel {

/// A JSON object for each completion: `step`, `prompt`, `completion`, `rewards` by name (null where
/// one does not apply), `advantage`, `truncated`, `prompt_ids` and `completion_ids`.
std::vector<std::string> completion_rows(const Rollouts& rollouts, int64_t step,
                                         const std::vector<std::string>& names);

}  // namespace accel
