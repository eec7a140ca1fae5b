// Reward functions: scores of completions that a task samples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/api/prompt_rows.h"
#include "core/recipe/registry.h"

namespace accel {

/// A sampled completion with its prompt. The references are valid during the call.
struct ScoredCompletion {
  const PromptRow& row;
  const std::string& text;  ///< without special tokens
  std::span<const int64_t> prompt_tokens;
  std::span<const int64_t> tokens;  ///< of the completion, with its end token
  bool is_truncated = false;        ///< ended by the length limit, without an end token
};

struct RewardContext {
  DataShape data;
};

/// Implementations live in train/rewards/ or in a plugin.
class RewardFunction {
 public:
  virtual ~RewardFunction() = default;

  /// One reward per completion; nullopt where it does not apply, which leaves it out of the sum and
  /// of the means. Called without autograd, on every rank for its own completions. Must depend on
  /// the arguments alone, so that resumed runs repeat. Throws DataError.
  virtual std::vector<std::optional<double>> score(
      std::span<const ScoredCompletion> completions) = 0;
  /// Columns that the rows of the data need.
  virtual std::vector<std::string> columns() const { return {}; }
  /// A frozen model that it evaluates, moved to the device and put into eval mode by the task.
  virtual Model* model() { return nullptr; }
};

}  // namespace accel
