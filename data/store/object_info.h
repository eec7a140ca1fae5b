// What identifies an object of a store, and a part of it.
#pragma once

#include <cstdint>
#include <string>

namespace accel {

struct ObjectInfo {
  std::string name;  ///< below the store's URL; "": the URL itself
  int64_t size = 0;
  std::string version;  ///< ETag, else the time of its last change
};

struct ByteRange {
  int64_t first = 0;
  int64_t bytes = 0;
};

}  // namespace accel
