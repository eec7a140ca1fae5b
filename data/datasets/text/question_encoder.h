// Questions and contexts as tokens, in overlapping windows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/api/question_windows.h"
#include "text/tokenizer.h"

namespace accel {

struct ContextTokens {
  std::vector<int32_t> ids;
  /// Of each token: whole characters, without white space around them.
  std::vector<ContextBytes> bytes;
};

/// Context tokens [first, first + count).
struct ContextWindow {
  int64_t first = 0;
  int64_t count = 0;
};

/// Immutable and thread-safe.
class QuestionEncoder {
 public:
  /// Throws DataError for a tokenizer that changes the tokens of two texts when it joins them.
  explicit QuestionEncoder(std::shared_ptr<const Tokenizer> tokenizer);

  /// Without special tokens.
  std::vector<int32_t> question(std::string_view text) const;
  ContextTokens context(std::string_view text) const;

  /// The windows of a context of `tokens` tokens behind a question, in samples of at most
  /// `max_length`, with `doc_stride` tokens in common: transformers' `only_second` with `stride`.
  /// Throws FormatError if the question leaves no room for more than `doc_stride` of them.
  std::vector<ContextWindow> windows(int64_t question_tokens, int64_t tokens, int64_t max_length,
                                     int64_t doc_stride) const;

  /// Position of a window's first context token in its sample.
  int64_t before_context(int64_t question_tokens) const {
    return static_cast<int64_t>(before_.ids.size() + between_.ids.size()) + question_tokens;
  }
  /// The tokens of a sample, and their types.
  TokenPair joined(const std::vector<int32_t>& question, std::span<const int32_t> context) const;
  /// Position of the token for "no answer" in joined(): [CLS], else the first token of a text.
  int64_t no_answer(const TokenPair& joined) const;
  /// Token types of samples; 0: all are of one type.
  int64_t num_types() const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenPair before_, between_, after_;  ///< special tokens
  int32_t question_type_ = 0, context_type_ = 0;
};

/// Positions of the first and the last of `tokens`, relative to `window`, with the text at
/// `answer`; none if the window does not contain it: those of transformers' run_qa.py. At the end
/// of a window, where that takes a token behind the context, it is the context's last one.
std::optional<std::pair<int64_t, int64_t>> answer_in(const std::vector<ContextBytes>& tokens,
                                                     const ContextWindow& window,
                                                     const ContextBytes& answer);

}  // namespace accel
