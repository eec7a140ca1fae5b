// Bytes of a mapped file and where the file has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace accel {

class WeightFile;

/// A range of a file in memory.
struct MappedRange {
  std::span<const std::byte> bytes;
  std::shared_ptr<const WeightFile> file;
  int64_t offset = 0;  ///< of the bytes in the file

  /// The range with the rest of its first and last block of the file.
  int64_t block_offset() const;
  int64_t block_bytes() const;
  /// A page fault reads one page, instead of as much as the kernel reads ahead.
  void expect_random_access() const;
  /// Unmaps the range's pages and evicts them from the page cache; later access reads the file.
  void drop() const;

 private:
  /// Pages at the ends may hold bytes of others.
  std::span<const std::byte> whole_pages() const;
};

/// The files behind bytes in memory, by /proc/self/maps, sorted by address; neighbours are one
/// range. Throws std::invalid_argument for bytes that belong to no file, or to one that cannot be
/// opened.
std::vector<MappedRange> mapped_ranges(std::vector<std::span<const std::byte>> bytes);

/// Whether each of the bytes is in a mapped file that can be opened.
std::vector<bool> are_mapped(const std::vector<std::span<const std::byte>>& bytes);

/// How weights are read: pieces of so many bytes, on so many threads.
inline constexpr size_t kReadPiece = size_t{4} << 20;
inline constexpr size_t kReaders = 4;

/// Bytes a second of reading the ranges in order, at most `limit` of them, from the disk, as
/// kReaders threads read with nothing else to do.
double sequential_rate(const std::vector<MappedRange>& ranges, int64_t limit);

}  // namespace accel
