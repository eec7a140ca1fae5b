// Bytes of a mapped file that are read before they are used and dropped after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace accel {

class OwnedFd;

/// A range of a file in memory.
struct MappedRange {
  std::span<const std::byte> bytes;
  std::shared_ptr<const OwnedFd> file;
  int64_t offset = 0;  ///< of the bytes in the file

  /// Begins to read bytes [first, first + count) of the range into the page cache.
  void start_reading(size_t first, size_t count) const;
  /// Reads these bytes and maps their pages. Returns when they are in memory.
  void read(size_t first, size_t count) const;
  /// Unmaps the range's pages and evicts them from the page cache; later access reads the file.
  void drop() const;
};

/// The files behind bytes in memory, by /proc/self/maps, sorted by address; neighbours are one
/// range. Throws std::invalid_argument for bytes that belong to no file, or to one that cannot be
/// opened.
std::vector<MappedRange> mapped_ranges(std::vector<std::span<const std::byte>> bytes);

/// Bytes a second of reading the ranges in order, at most `limit` of them, from the disk.
double sequential_rate(const std::vector<MappedRange>& ranges, int64_t limit);

}  // namespace accel
