// Rollouts: completions that a model samples for a micro-batch of prompts, with their rewards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/completion_sampler.h"
#include "core/api/reward.h"
#include "train/tasks/samples_completions.h"

namespace accel {

/// How a task samples.
struct RolloutOptions {
  CompletionOptions sampling;   ///< without seed
  int64_t num_generations = 8;  ///< completions per prompt
  bool mask_truncated = false;  ///< leaves completions without an end token out of the mask
  int64_t max_length = 0;       ///< tokens of the longest prompt with its completion
};

/// `num_generations` successive rows for each prompt.
struct Rollouts {
  Batch rows;            ///< prompts with completions; targets are the completions' tokens
  at::Tensor mask;       ///< [rows, length] F32: 1 at each target that counts
  at::Tensor rewards;    ///< [rows, functions] F64 on the CPU; NaN: does not apply
  at::Tensor lengths;    ///< [rows] F64 on the CPU: tokens of completions, with end tokens
  at::Tensor truncated;  ///< [rows] F64 on the CPU: 1 without an end token
  std::vector<std::vector<int64_t>> prompt_ids;      ///< by row
  std::vector<std::vector<int64_t>> completion_ids;  ///< by row, with end tokens
  std::vector<std::string> prompts;                  ///< by prompt
  std::vector<std::string> texts;                    ///< by row
  // Of updates:
  at::Tensor advantages;     ///< [rows] F32
  at::Tensor old_log_probs;  ///< [rows, length] F32; undefined before the first update
  at::Tensor reference;      ///< as old_log_probs; undefined without a divergence
};

using RewardFunctions = std::vector<std::unique_ptr<RewardFunction>>;

/// Samples and scores completions of the prompts of `batch`. Random streams depend on the seed,
/// `step` and the sample's id alone. `is_training`: whose rows `source` is asked for. Throws
/// DataError of a reward function, naming `names`, and DivergedError.
class RolloutSampler {
 public:
  RolloutSampler(const RolloutOptions& options, const RewardFunctions& rewards,
                 const std::vector<std::string>& names)
      : options_(options), rewards_(rewards), names_(names) {}

  void set_source(CompletionSource source) { source_ = std::move(source); }
  Rollouts sample(const Batch& batch, int64_t step, bool is_training) const;

 private:
  std::vector<SampledPrompt> requests(const Batch& batch, int64_t step) const;
  at::Tensor score(const std::vector<PromptRow>& rows, const std::vector<SampledPrompt>& prompts,
                   const std::vector<SampledCompletion>& completions) const;

  RolloutOptions options_;
  const RewardFunctions& rewards_;
  const std::vector<std::string>& names_;
  CompletionSource source_;
};

/// The rows of prompts and completions, padded on the right with 0, on `device`.
Rollouts rollout_rows(const std::vector<SampledPrompt>& prompts,
                      const std::vector<SampledCompletion>& completions, bool mask_truncated,
                      at::Device device);

}  // namespace accel
