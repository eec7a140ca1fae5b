#include "data/store/mapped_parts.h"

#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace accel {

SharedBytes MappedParts::find(const ObjectPart& part) {
  const std::shared_lock lock(mutex_);
  const auto found = parts_.find(part);
  if (found == parts_.end()) return {};
  std::atomic<bool>& is_read = found->second.is_read;
  // A store in each read would move the cache line between processors.
  if (!is_read.load(std::memory_order_relaxed)) is_read.store(true, std::memory_order_relaxed);
  return found->second.bytes;
}

SharedBytes MappedParts::add(const ObjectPart& part, const SharedBytes& bytes) {
  if (part.range.bytes > most_bytes_) return bytes;
  std::vector<SharedBytes> replaced;  // unmapped without the lock
  const std::unique_lock lock(mutex_);
  if (const auto found = parts_.find(part); found != parts_.end()) return found->second.bytes;
  while (parts_.size() >= most_parts_ || bytes_ + part.range.bytes > most_bytes_) {
    const ObjectPart oldest = order_.front();
    order_.pop_front();
    const auto found = parts_.find(oldest);
    if (found->second.is_read.exchange(false, std::memory_order_relaxed)) {
      order_.push_back(oldest);
      continue;
    }
    bytes_ -= oldest.range.bytes;
    replaced.push_back(std::move(found->second.bytes));
    parts_.erase(found);
  }
  parts_.try_emplace(part, bytes);
  order_.push_back(part);
  bytes_ += part.range.bytes;
  return bytes;
}

size_t most_open_files() {
  constexpr rlim_t kShare = 4, kFewest = 64, kMost = 4096;
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewest;
  return std::clamp(limit.rlim_cur / kShare, kFewest, kMost);
}

}  // namespace accel
