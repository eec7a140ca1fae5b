// Prompts without completions: samples of tasks that sample the completions themselves.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/api/data_shape.h"

namespace accel {

/// Whether each sample is the tokens of a prompt. All targets are kIgnoredTarget. The shape's
/// `input` is {longest prompt with its completion} and its `target` {0, the same}, so that other
/// tasks refuse it.
inline bool has_prompts(const DataShape& data) {
  return data.padding && data.input.size() == 1 && data.target == Shape{0, data.input[0]};
}

/// A row of a dataset of prompts, as text.
struct PromptRow {
  std::string prompt;  ///< as it was tokenized: of messages, the output of the chat template
  /// The values of all fields by name: texts as they are, other values as JSON. Without null.
  std::map<std::string, std::string> columns = {};
  std::string place = {};  ///< "sums.jsonl:12", for messages
};

/// Optional interface of datasets with prompts.
class PromptRows {
 public:
  virtual ~PromptRows() = default;
  /// Of the sample at `index`. Thread-safe.
  virtual PromptRow prompt_row(int64_t index) const = 0;
};

}  // namespace accel
