// Token sequences of variable length, contiguous in memory, and their packing into samples.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "data/datasets/text/disk_backed_buffer.h"

namespace accel {

/// Immutable and thread-safe. Copies share the memory.
class TokenSequences {
 public:
  TokenSequences() = default;
  /// The end offset of each sequence (int64), all tokens (int32), and the segment of each token
  /// (int32), empty if every sequence is a single text.
  TokenSequences(Array ends, Array tokens, Array segments);

  int64_t size() const { return ends_.empty() ? 0 : ends_.count(); }
  /// Length of the sequence at `index`.
  int64_t length(int64_t index) const;
  /// Total memory.
  int64_t bytes() const;
  /// The sequence at `index` as input and segments (int64) of a sample without target.
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

/// Appends sequences.
class TokenSequencesBuilder {
 public:
  /// Numbers that do not fit into memory are written to `folder`; empty: all are kept in memory.
  explicit TokenSequencesBuilder(const std::filesystem::path& folder = {})
      : tokens_(folder), segments_(folder) {}

  /// Either all sequences have segments or none.
  void add(std::span<const int32_t> tokens, std::span<const int32_t> segments = {});
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  TokenSequences finish() &&;

 private:
  std::vector<int64_t> ends_;
  DiskBackedBuffer tokens_;
  DiskBackedBuffer segments_;
};

/// Tokens of two sequences that are packed together.
struct PairLength {
  int64_t first = 0, second = 0;
};

/// Packs sequences in order by first fit: into the first of the last 64 open samples with enough
/// room, else into a new one. Deterministic.
class Packing {
 public:
  Packing() = default;
  /// `length(i)` of sequences 0 to `count` - 1 is in [1, `most`].
  Packing(int64_t count, int64_t most, const std::function<int64_t(int64_t)>& length);
  /// Of pairs, such as sources and targets: both have room. The lengths may exceed `most` alone.
  Packing(int64_t count, PairLength most, const std::function<PairLength(int64_t)>& length);

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  /// The sequences of a sample, in ascending order.
  std::span<const int64_t> members(int64_t sample) const;
  /// Says how many samples of up to `most` tokens those of the file `path` are, and how full.
  void say_summary(const std::string& path, int64_t most) const;

 private:
  std::vector<int64_t> ends_;  ///< per sample, index into members_
  std::vector<int64_t> members_;
  int64_t tokens_ = 0;  ///< of all sequences, of pairs the first ones
};

/// A packed sample: inputs and targets of `members`, one after the other, with segments that number
/// them from 1. `text` returns one of them; its target has the length of its input.
Sample joined_texts(std::span<const int64_t> members, const std::function<Sample(int64_t)>& text);

/// Number of segment ids of samples of up to `most` tokens with packed texts, by which is_packed()
/// tells them from text pairs.
int64_t packed_segments(int64_t most);

/// Throws Error (kRecipe): rows of packed samples cannot be kept together. `column`: of the option
/// 'group'; `texts`: "conversations".
[[noreturn]] void refuse_packed_groups(const std::string& column, const std::string& texts);

}  // namespace accel
