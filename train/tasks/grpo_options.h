// Options of the task `grpo`, with the names and defaults of TRL's GRPOConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/api/model.h"
#include "core/api/reward.h"
#include "core/recipe/registry.h"
#include "train/tasks/grpo_losses.h"

namespace accel {

struct GrpoOptions {
  std::vector<Ref<RewardFunction>> rewards;
  std::vector<double> reward_weights;
  int64_t num_generations = 8;
  int64_t max_completion_length = 512;
  double temperature = 1;
  double top_p = 1;
  int64_t top_k = 0;
  std::optional<double> min_p;
  double repetition_penalty = 1;
  GrpoLoss loss_type = GrpoLoss::kDapo;
  RewardScale scale_rewards = RewardScale::kGroup;
  bool mask_truncated_completions = false;
  int64_t num_iterations = 1;
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;
  RatioLevel importance_sampling_level = RatioLevel::kToken;
  double beta = 0;
  bool use_bias_correction_kl = true;
  Auto<Ref<Model>> reference;
  bool dropout = true;
  bool log_completions = false;

  GrpoLossOptions loss() const {
    return {loss_type,
            beta,
            epsilon,
            epsilon_high,
            delta,
            importance_sampling_level,
            use_bias_correction_kl,
            max_completion_length};
  }
};

/// Refuses options that have no effect on each other.
Schema<GrpoOptions> grpo_schema();

}  // namespace accel
