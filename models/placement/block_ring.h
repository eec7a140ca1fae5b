// Memory for streamed blocks, used in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "models/placement/region_ring.h"

namespace accel {

/// Page-aligned memory, in huge pages where the kernel has them, in regions of a RegionRing that
/// begin at pages. A page takes memory when it is first written, and keeps it.
class BlockRing {
 public:
  /// Throws std::bad_alloc.
  explicit BlockRing(int64_t capacity);

  int64_t capacity() const { return places_.capacity(); }
  std::byte* data() const { return data_; }
  std::span<std::byte> memory() const { return {data_, static_cast<size_t>(capacity())}; }
  /// `bytes`: a multiple of the page size.
  std::optional<int64_t> take(int64_t bytes) { return places_.take(bytes); }
  void free_oldest() { places_.free_oldest(); }
  void clear() { places_.clear(); }
  int64_t peak() const { return places_.peak(); }

 private:
  RegionRing places_;
  std::shared_ptr<void> memory_;
  std::byte* data_ = nullptr;
};

}  // namespace accel
