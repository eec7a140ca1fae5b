// A file of weights that is read past the page cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/owned_fd.h"

namespace accel {

/// pread(2), with errno as ever. Tests replace it by a failing one.
using PositionedRead = std::function<ssize_t(int fd, void* to, size_t bytes, off_t offset)>;

/// Direct I/O (O_DIRECT) copies no bytes and takes no page cache. File systems without it get
/// buffered reads, whose pages are evicted.
class WeightFile {
 public:
  /// Offsets, sizes and addresses of reads are multiples of it.
  static constexpr int64_t kBlock = 4096;

  /// Throws IoError when the file cannot be opened.
  explicit WeightFile(const std::string& path, PositionedRead read = &::pread);

  bool is_direct() const { return direct_; }
  /// Reads bytes of the file until `to` is full or the file ends, but at least `needed`. Throws
  /// IoError. Thread-safe.
  void read(int64_t offset, std::span<std::byte> to, int64_t needed) const;
  /// Evicts the pages of these bytes from the page cache.
  void evict(int64_t offset, int64_t bytes) const;

 private:
  std::string path_;
  PositionedRead read_;
  OwnedFd buffered_;
  OwnedFd unbuffered_;
  mutable std::atomic<bool> direct_;
};

}  // namespace accel
