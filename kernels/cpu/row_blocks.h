// Rows of activations in blocks that stay in the cache, and parts of one thread each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace accel {

/// Consecutive rows, or columns.
struct Range {
  int64_t first, count;
};

/// Blocks and parts depend on the number of rows alone, so that sums of parts have the same bits
/// for any number of threads.
class RowBlocks {
 public:
  static constexpr int64_t kRowsOfBlock = 96;

  explicit RowBlocks(int64_t rows) : rows_(rows) {}

  /// Calls visit(Range block, bool is_first) for the blocks of a part, in their order.
  template <typename Visit>
  void for_each_block(int64_t part_index, const Visit& visit) const {
    const Range rows = part(part_index);
    for (int64_t row = rows.first; row < rows.first + rows.count; row += kRowsOfBlock) {
      visit(block(row), row == rows.first);
    }
  }

  /// `first`: a multiple of kRowsOfBlock.
  Range block(int64_t first) const { return {first, std::min(kRowsOfBlock, rows_ - first)}; }

  /// A power of two, of which threads take equal shares. Gradients of parameters are summed apart
  /// in each, of at least kBlocksOfPart blocks.
  int64_t parts() const {
    const auto most = static_cast<uint64_t>(std::max<int64_t>(blocks() / kBlocksOfPart, 1));
    return std::min(static_cast<int64_t>(std::bit_floor(most)), kMostParts);
  }
  /// Whole blocks; parts differ by at most one.
  Range part(int64_t i) const {
    const int64_t first = blocks() * i / parts() * kRowsOfBlock;
    return {first, std::min(blocks() * (i + 1) / parts() * kRowsOfBlock, rows_) - first};
  }

 private:
  static constexpr int64_t kBlocksOfPart = 5;
  static constexpr int64_t kMostParts = 16;

  int64_t blocks() const { return (rows_ + kRowsOfBlock - 1) / kRowsOfBlock; }

  int64_t rows_;
};

}  // namespace accel
