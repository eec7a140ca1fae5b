// CIFAR-10's binary version: records of a label and the planes of an image.
#pragma once

#include <cstdint>
#include <string>

#include "core/array.h"
#include "runner/formats/mapped_file.h"

namespace accel {

constexpr int64_t kCifarClasses = 10;

/// The records of one file of it, looked at in place.
class CifarRecords {
 public:
  /// Throws DataError naming `name` when the bytes are no whole number of records, or a label is
  /// not below kCifarClasses.
  CifarRecords(SharedBytes file, const std::string& name);

  int64_t size() const;
  int64_t label(int64_t index) const;
  /// u8 [3, 32, 32], red, green and blue; shares memory with the file.
  Array image(int64_t index) const;

 private:
  SharedBytes file_;
};

}  // namespace accel
