// What identifies an object of a store, and a part of it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace accel {

struct ObjectInfo {
  std::string name;  ///< below the store's URL; "": the URL itself
  int64_t size = 0;
  std::string version;  ///< ETag, else the time of its last change
};

enum class ListingDepth { kFolder, kAll };  ///< the objects directly in a folder, or all below it

struct ByteRange {
  int64_t first = 0;
  int64_t bytes = 0;

  auto operator<=>(const ByteRange& other) const = default;
};

/// A part of one of several objects.
struct ObjectPart {
  size_t object = 0;
  ByteRange range;

  auto operator<=>(const ObjectPart& other) const = default;
};

struct ObjectPartHash {
  size_t operator()(const ObjectPart& part) const {
    constexpr size_t kMixer = 0x9e3779b97f4a7c15ULL;
    const auto first = static_cast<size_t>(part.range.first);
    return ((part.object * kMixer) ^ first) * kMixer ^ static_cast<size_t>(part.range.bytes);
  }
};

}  // namespace accel
