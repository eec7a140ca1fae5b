// Statistics of the completions and rewards of a step, under TRL's names.
#pragma once

#include <string>
#include <vector>

#include "core/api/step.h"
#include "train/tasks/rollouts.h"

namespace accel {

/// The rewards and completions of a global batch, by row in the order of the global batch: on all
/// ranks, on the CPU, F64.
struct GatheredRollouts {
  at::Tensor rewards;    ///< [rows, functions]; NaN: does not apply
  at::Tensor lengths;    ///< [rows] tokens of completions
  at::Tensor truncated;  ///< [rows]
};

/// All-gathers the rollouts of all micro-batches; `group` rows for each sample.
GatheredRollouts gather_rollouts(StepContext& context, const std::vector<Rollouts>& own,
                                 int64_t group);

/// Logs rewards and their spread: `weighted` are the rows' sums, `names` those of the functions.
void log_rewards(const GatheredRollouts& all, const at::Tensor& weighted, int64_t group,
                 const std::vector<std::string>& names, StepContext& context);
/// Logs the lengths of completions and the share of truncated ones.
void log_completions(const GatheredRollouts& all, StepContext& context);

}  // namespace accel
