// Files that are read by ranges, such as objects of a store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace accel {

class RangeFile {
 public:
  virtual ~RangeFile() = default;

  virtual int64_t size() const = 0;
  /// Copies the bytes from `first`. Throws Error.
  virtual void read(int64_t first, std::span<std::byte> out) const = 0;
  /// Announces a reader's ranges (position, bytes), in the order in which it will read them.
  virtual void read_ahead(std::span<const std::pair<int64_t, int64_t>> ranges) const = 0;
};

}  // namespace accel
