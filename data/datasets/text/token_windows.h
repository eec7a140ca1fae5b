// Fixed-length windows of a long token sequence, for `text` and `tokens`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/api/dataset.h"
#include "core/recipe/schema.h"
#include "data/datasets/fingerprint.h"

namespace accel {

struct WindowOptions {
  int64_t max_seq_len = 64;
  Auto<int64_t> stride;
  double from = 0.0;
  double to = 1.0;
};

/// Adds WindowOptions, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_window_options(Schema<Options> schema) {
  return std::move(schema)
      .field("max_seq_len", static_cast<int64_t Options::*>(&Options::max_seq_len),
             "Tokens of one sample.", at_least<int64_t>(1))
      .renamed_from("context")
      .hint_for({"seq_len", "sequence_length", "block_size", "context_length"})
      .field("stride", static_cast<Auto<int64_t> Options::*>(&Options::stride),
             "Tokens from the start of one sample to the start of the next; auto: 'max_seq_len'. "
             "1: a sample at every token.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("from", static_cast<double Options::*>(&Options::from),
             "Where this part of the file begins, as a fraction of its tokens.", within(0.0, 1.0))
      .field("to", static_cast<double Options::*>(&Options::to),
             "Where it ends: train on 0 to 0.9 and evaluate on 0.9 to 1.", between(0.0, 1.0))
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (options.from >= options.to) {
          reading.problems.error(node.where, "'from' must be less than 'to'");
        }
      });
}

/// Samples of `max_seq_len` tokens, with the next tokens as targets.
class TokenWindows {
 public:
  /// `tokens`: number of tokens in the file. Throws DataError if the selected part contains no
  /// sample.
  TokenWindows(const WindowOptions& options, int64_t tokens, const std::string& path);

  int64_t size() const { return size_; }
  /// As SequenceWindows::overlap(). Windows of stride 'max_seq_len' share one token: the last
  /// target of one is the first input of the next.
  int64_t overlap() const { return context_ / stride_; }
  /// The sample at `index`; `read` copies tokens from position `first` to `ids`.
  Sample sample(int64_t index,
                const std::function<void(int64_t first, std::span<int64_t> ids)>& read) const;
  /// Position of the first token of the sample at `index`, and the number of tokens it reads.
  int64_t first_token(int64_t index) const { return first_ + index * stride_; }
  int64_t tokens() const { return context_ + 1; }
  /// Without `vocab` and `labels`.
  DataShape shape() const;
  void add_to(Fingerprint& fingerprint) const;

 private:
  int64_t context_;
  int64_t stride_;
  int64_t first_;
  int64_t size_ = 0;
};

}  // namespace accel
