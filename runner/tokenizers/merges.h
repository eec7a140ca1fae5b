// The rules of byte-pair encoding, and their use on one word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/tokenizers/flat_map.h"

namespace accel {

struct Merge {
  int32_t rank = 0;  ///< the lowest goes first
  int32_t made = 0;  ///< the id of the token that the two become
};

/// Which two neighbours become one, and in what order.
class MergeTable {
 public:
  explicit MergeTable(size_t count = 0) : merges_(count) {}

  /// The last rule of a pair counts, as in the Python package.
  void add(int32_t left, int32_t right, Merge merge) { merges_.insert(key(left, right), merge); }

  /// Null when the two stay apart.
  const Merge* find(int32_t left, int32_t right) const { return merges_.find(key(left, right)); }

  /// Applies the rules to the symbols of a word until none fits: always the one of the lowest rank,
  /// and of several places the leftmost.
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
