// CIFAR-10, binary version: records of a label and an image.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/array.h"
#include "core/base/mapped_file.h"

namespace accel {

constexpr int64_t kCifarClasses = 10;

/// The records of one file, read in place.
class CifarRecords {
 public:
  /// Throws DataError with `name` for a partial record and for a label of kCifarClasses or more.
  CifarRecords(SharedBytes file, const std::string& name);

  int64_t size() const;
  int64_t label(int64_t index) const;
  /// u8 [3, 32, 32], red, green and blue; shares memory with the file.
  Array image(int64_t index) const;

 private:
  SharedBytes file_;
};

}  // namespace accel
