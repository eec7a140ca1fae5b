// Disk-backed buffer of int32 numbers, in an unlinked file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/array.h"
#include "core/base/owned_fd.h"

namespace accel {

/// Appends numbers. Apart from the last 1 MiB, its memory is page cache. Not thread-safe.
class DiskBackedBuffer {
 public:
  /// Creates the file in `folder`, which is created if missing. An empty folder, or an error of the
  /// disk, keeps all numbers in memory.
  explicit DiskBackedBuffer(std::filesystem::path folder = {});
  ~DiskBackedBuffer();
  DiskBackedBuffer(DiskBackedBuffer&& other) noexcept;
  DiskBackedBuffer& operator=(DiskBackedBuffer&& other) noexcept;

  void add(std::span<const int32_t> numbers);
  int64_t size() const { return written_ + static_cast<int64_t>(last_.size()); }
  /// All numbers, int32; empty for none.
  Array finish() &&;

 private:
  bool write_last();
  bool open_file();
  void take_back();
  Array mapped() const;

  std::filesystem::path folder_;  // empty: in memory
  OwnedFd file_;
  int64_t written_ = 0;  // numbers in the file
  std::vector<int32_t> last_;
};

}  // namespace accel
