// Samples of extractive question answering: windows of a question's context.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/data_shape.h"

namespace accel {

/// Whether each sample is the tokens of a question and of a window of its context, and its target
/// the first and the last token of the answer, int64 [1, 2], whatever the length of the input.
inline bool has_question_windows(const DataShape& data) {
  return data.padding && data.target == Shape{1, 2};
}

/// Bytes [begin, end) of a context.
struct ContextBytes {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const ContextBytes&) const = default;
};

/// What a sample contains of a context.
struct QuestionWindow {
  int64_t question = 0;                       ///< its number
  int64_t first = 0;                          ///< position of the first context token in the sample
  std::span<const ContextBytes> tokens = {};  ///< of the context tokens in the sample
};

struct QuestionText {
  std::string_view id;
  std::string_view context;
  std::span<const std::string> answers;  ///< none: the context has no answer
};

/// Optional interface of datasets with windows of questions. Thread-safe.
class QuestionWindows {
 public:
  virtual ~QuestionWindows() = default;
  virtual int64_t num_questions() const = 0;
  virtual QuestionText question(int64_t number) const = 0;
  /// Of the sample at `index`.
  virtual QuestionWindow window(int64_t index) const = 0;
};

}  // namespace accel
