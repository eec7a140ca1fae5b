// Token sequences of any length, one after another in memory: what texts become.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/dataset.h"
#include "data/spill.h"

namespace accel {

/// Not changed any more once made, and safe to share. Copies share the memory.
class TokenSequences {
 public:
  TokenSequences() = default;
  /// Where each sequence ends among all tokens (int64), the tokens (int32), and which of several
  /// texts each belongs to (int32), empty where every sequence is a single text.
  TokenSequences(Array ends, Array tokens, Array segments);

  int64_t size() const { return ends_.empty() ? 0 : ends_.count(); }
  /// Tokens of the sequence at `index`.
  int64_t length(int64_t index) const;
  /// Memory of all of it.
  int64_t bytes() const;
  /// The sequence at `index` as a sample's input and segments, int64; it has no target.
  Sample sample(int64_t index) const;

  const Array& ends() const { return ends_; }
  const Array& all_tokens() const { return tokens_; }
  const Array& all_segments() const { return segments_; }

 private:
  int64_t first_of(int64_t index) const;

  Array ends_;
  Array tokens_;
  Array segments_;
};

/// Grows by one sequence at a time.
class TokenSequencesBuilder {
 public:
  /// What does not fit into memory is put aside in `folder`; empty: all is to fit.
  explicit TokenSequencesBuilder(const std::filesystem::path& folder = {})
      : tokens_(folder), segments_(folder) {}

  /// All sequences have segments, or none has.
  void add(std::span<const int32_t> tokens, std::span<const int32_t> segments = {});
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  TokenSequences finish() &&;

 private:
  std::vector<int64_t> ends_;
  SpilledNumbers tokens_;
  SpilledNumbers segments_;
};

}  // namespace accel
