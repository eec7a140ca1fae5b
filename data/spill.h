// Numbers too many for memory, written to a file without a name as they come.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/array.h"

namespace accel {

/// Takes whole numbers one run after another. What it holds in memory is the system's to take back,
/// but for the last few. For one thread.
class SpilledNumbers {
 public:
  /// Its file lies in `folder`, which is made; with an empty one all is kept in memory, and so it
  /// is from the moment on that the disk does not take more.
  explicit SpilledNumbers(std::filesystem::path folder = {});
  ~SpilledNumbers();
  SpilledNumbers(SpilledNumbers&& other) noexcept;
  SpilledNumbers& operator=(SpilledNumbers&& other) noexcept;

  void add(std::span<const int32_t> numbers);
  int64_t size() const { return written_ + static_cast<int64_t>(last_.size()); }
  /// All of them, int32; empty for none.
  Array finish() &&;

 private:
  bool write_last();
  bool open_file();
  void take_back();
  Array mapped() const;

  std::filesystem::path folder_;  // empty: no more is written
  int file_ = -1;
  int64_t written_ = 0;  // numbers in the file
  std::vector<int32_t> last_;
};

}  // namespace accel
