// Merge rules of byte-pair encoding, and their application to a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/flat_map.h"

namespace accel {

struct Merge {
  int32_t rank = 0;    ///< the lowest is applied first
  int32_t merged = 0;  ///< id of the merged token
};

/// Merge rules by pair of neighbours.
class MergeTable {
 public:
  explicit MergeTable(size_t count = 0) : merges_(count) {}

  /// A later rule of a pair replaces an earlier one, as in Hugging Face tokenizers.
  void add(int32_t left, int32_t right, Merge merge) { merges_.insert(key(left, right), merge); }

  /// Null for a pair without a rule.
  const Merge* find(int32_t left, int32_t right) const { return merges_.find(key(left, right)); }

  /// Applies the rules to the symbols of a word until none fits: always the one of the lowest rank,
  /// of several positions the leftmost.
  void apply(std::vector<int32_t>& symbols) const;

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  void apply_to_short(std::vector<int32_t>& symbols) const;
  void apply_to_long(std::vector<int32_t>& symbols) const;

  FlatMap<Merge> merges_;
};

}  // namespace accel
