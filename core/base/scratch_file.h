// Scratch file: disk space of one process, read and written past the page cache.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/bytes.h"
#include "core/base/owned_fd.h"

namespace accel {

/// System calls, with errno as ever. Tests replace them by failing ones.
struct ScratchCalls {
  std::function<ssize_t(int fd, void* to, size_t bytes, off_t offset)> read = &::pread;
  std::function<ssize_t(int fd, const void* from, size_t bytes, off_t offset)> write = &::pwrite;
  /// Returns the errno, as posix_fallocate(3).
  std::function<int(int fd, off_t offset, off_t bytes)> reserve = &::posix_fallocate;
};

/// A file without a name, which is gone with the process, however that ends. With direct I/O
/// (O_DIRECT) it takes no page cache, which would otherwise evict the training data; file systems
/// without it get buffered I/O. read() and write() are thread-safe.
class ScratchFile {
 public:
  /// Offsets, sizes and addresses of I/O are multiples of it.
  static constexpr int64_t kBlock = 4096;

  /// Throws IoError when the folder is missing, read-only or in memory (tmpfs).
  explicit ScratchFile(const std::string& folder, ScratchCalls calls = {});

  const std::string& folder() const { return folder_; }
  bool is_direct() const { return direct_; }
  int64_t bytes() const { return bytes_; }

  /// Reserves disk blocks for `more` bytes at the end and returns their offset. Throws IoError when
  /// the disk has too few; writes into reserved blocks find space.
  int64_t grow(int64_t more);
  /// Reads or writes all bytes. Throws IoError.
  void read(int64_t offset, std::span<std::byte> to) const;
  void write(int64_t offset, ByteSpan from) const;

 private:
  [[noreturn]] void fail(const std::string& action, int error) const;

  std::string folder_;
  ScratchCalls calls_;
  OwnedFd fd_;
  bool direct_ = false;
  int64_t bytes_ = 0;
};

}  // namespace accel
