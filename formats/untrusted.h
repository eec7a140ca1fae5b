// Limits on untrusted files: declared array sizes, memory of parsers, file names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "core/base/array.h"
#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {

/// Bytes of an array of `shape`; none for a negative size or on overflow of 63 bits.
std::optional<size_t> claimed_bytes(DType type, const Shape& shape);

/// Charged before each allocation. The limit is the input's size plus kRoom, so that a small
/// hostile file cannot allocate gigabytes.
class MemoryBudget {
 public:
  static constexpr size_t kRoom = size_t{40} << 20;

  /// `what` names the input in messages: "the pickle".
  MemoryBudget(size_t bytes, std::string what) : left_(kRoom + bytes), what_(std::move(what)) {}

  size_t left() const { return left_; }

  /// Throws FormatError when the limit is exceeded.
  void take(size_t bytes) {
    if (bytes > left_) {
      throw FormatError(text("{} expands to far more memory than the file's size", what_));
    }
    left_ -= bytes;
  }
  void give_back(size_t bytes) { left_ += bytes; }

 private:
  size_t left_;
  std::string what_;
};

/// Whether the name is not hidden and stays in its folder on every system.
inline bool is_plain_file_name(const std::string& name) {
  constexpr size_t kMaxFileName = 255;
  return !name.empty() && name.size() <= kMaxFileName && name[0] != '.' &&
         name.find("..") == name.npos &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) {
           return c < ' ' || c == 0x7f || c == '/' || c == '\\' || c == ':';
         });
}

}  // namespace accel
