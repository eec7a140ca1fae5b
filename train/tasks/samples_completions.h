// Tasks that sample completions of prompts with the trained model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/api/completion_sampler.h"
#include "core/api/prompt_rows.h"

namespace accel {

/// Sampler and prompt rows of the job.
struct CompletionSource {
  std::shared_ptr<CompletionSampler> sampler;
  /// The row of a sample of the training data and of the eval data, by Batch::ids.
  std::function<PromptRow(int64_t id)> train_row, eval_row;
  uint64_t seed = 0;  ///< the recipe's
};

class SamplesCompletions {
 public:
  virtual ~SamplesCompletions() = default;
  /// Called once, before the first step.
  virtual void set_source(CompletionSource source) = 0;
  virtual int64_t max_completion_length() const = 0;
  /// Whether completions without an end token are left out of the loss.
  virtual bool needs_end_token() const = 0;
  /// Columns that the rows need.
  virtual std::vector<std::string> columns() const = 0;
  /// Rows of the completions of this rank since the last call, each a JSON object with `step`; none
  /// unless the recipe asks for them.
  virtual std::vector<std::string> take_completion_rows() = 0;
};

}  // namespace accel
