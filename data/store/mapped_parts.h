// Cached parts of objects that stay mapped, for repeated reads without system calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "core/base/mapped_file.h"
#include "data/store/object_info.h"

namespace accel {

/// Thread-safe. Keeps the parts that were read recently (second-chance replacement).
class MappedParts {
 public:
  MappedParts(int64_t most_bytes, size_t most_parts)
      : most_bytes_(most_bytes), most_parts_(most_parts) {}

  /// Without an owner if the part is not mapped.
  SharedBytes find(const ObjectPart& part);
  /// Returns the bytes that are kept, which another thread may have added.
  SharedBytes add(const ObjectPart& part, const SharedBytes& bytes);
  /// Whether `parts` parts, of `bytes` together, can all be kept: none is then ever replaced.
  bool can_hold(int64_t bytes, size_t parts) const {
    return bytes <= most_bytes_ && parts <= most_parts_;
  }

 private:
  struct Mapped {
    explicit Mapped(SharedBytes content) : bytes(std::move(content)) {}
    SharedBytes bytes;
    std::atomic<bool> is_read = false;  ///< since the last round of the replacement
  };

  const int64_t most_bytes_;
  const size_t most_parts_;
  std::shared_mutex mutex_;  // guards all members below
  std::unordered_map<ObjectPart, Mapped, ObjectPartHash> parts_;
  std::deque<ObjectPart> order_;  ///< of replacement
  int64_t bytes_ = 0;
};

/// The number of files that may stay open in a process: a quarter of its limit, at most 4096.
size_t most_open_files();

}  // namespace accel
