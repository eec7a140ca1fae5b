// Memory for streamed blocks, used in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace accel {

/// Page-aligned memory, in huge pages where the kernel has them. Regions are contiguous, begin at
/// pages and are freed in the order in which they were taken. A page takes memory when it is first
/// written, and keeps it.
class BlockRing {
 public:
  /// Throws std::bad_alloc.
  explicit BlockRing(int64_t capacity);

  int64_t capacity() const { return capacity_; }
  std::byte* data() const { return data_; }
  /// The offset of a region of `bytes`, a multiple of the page size; null: too many are in use.
  std::optional<int64_t> take(int64_t bytes);
  void free_oldest() { used_.pop_front(); }
  void clear() { used_.clear(); }
  /// The most bytes that regions have covered.
  int64_t peak() const { return peak_; }

 private:
  struct Region {
    int64_t begin, end;
  };
  std::optional<int64_t> place(int64_t bytes) const;

  int64_t capacity_;
  std::shared_ptr<void> memory_;
  std::byte* data_ = nullptr;
  std::deque<Region> used_;
  int64_t peak_ = 0;
};

}  // namespace accel
