// What a reader may take at a file's word: a bound on memory that a few hostile bytes cannot lift.
#pragma once

#include <cstddef>
#include <string>

#include "runner/formats/format_error.h"

namespace accel {

/// Counts memory before it is taken. A reader given `bytes` of input has that much and some room,
/// so that a large honest file is read and a small one cannot ask for gigabytes.
class MemoryBudget {
 public:
  static constexpr size_t kRoom = size_t{40} << 20;

  /// `what` begins the message: "the pickle".
  MemoryBudget(size_t bytes, std::string what) : left_(kRoom + bytes), what_(std::move(what)) {}

  size_t left() const { return left_; }

  /// Throws FormatError when less is left.
  void take(size_t bytes) {
    if (bytes > left_) {
      throw FormatError(what_ + " unfolds to far more memory than the file's size");
    }
    left_ -= bytes;
  }
  void give_back(size_t bytes) { left_ += bytes; }

 private:
  size_t left_;
  std::string what_;
};

}  // namespace accel
