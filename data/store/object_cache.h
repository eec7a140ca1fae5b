// On-disk cache of objects and of parts of them, with a limit on its size.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "core/base/bytes.h"
#include "core/base/mapped_file.h"
#include "core/base/owned_fd.h"

namespace accel {

/// An entry in use: it is not evicted. Movable.
class CacheEntry {
 public:
  CacheEntry(OwnedFd fd, int64_t bytes, std::string path)
      : fd_(std::move(fd)), bytes_(bytes), path_(std::move(path)) {}

  /// Copies the bytes from `first`. Throws IoError.
  void read(int64_t first, std::span<std::byte> out) const;
  /// Maps the content; the entry is in use as long as the bytes are.
  SharedBytes map() &&;

 private:
  friend class ObjectCache;

  OwnedFd fd_;
  int64_t bytes_;
  std::string path_;
};

/// A folder with one file per key, which is its content and a checksum. Threads, ranks and runs
/// share it: of those that want an entry one fetches it and the others wait. Entries appear
/// atomically; what a killed process left is removed when room is made. The size of all files,
/// unfinished ones too, is at most the limit.
class ObjectCache {
 public:
  /// Writes the content of an entry.
  using Fetch = std::function<void(const ByteSink& write)>;

  /// Creates the folder. `patience`: how long a new entry waits for room. Throws IoError.
  ObjectCache(std::string folder, int64_t limit,
              std::chrono::milliseconds patience = std::chrono::seconds(30));

  const std::string& folder() const { return folder_; }
  int64_t limit() const { return limit_; }

  /// The entry of `key`, fetched if it is missing or damaged. `key` is a file name; `name` is for
  /// messages. Throws IoError for a full disk, a limit below the entry and a cache whose entries
  /// are all in use, and what `fetch` throws.
  CacheEntry get(const std::string& key, int64_t bytes, const std::string& name,
                 const Fetch& fetch);
  /// As get(), if the entry is there or gets room without the eviction of one that was used since
  /// this object was made; else none. Does not wait for room.
  std::optional<CacheEntry> get_if_room(const std::string& key, int64_t bytes,
                                        const std::string& name, const Fetch& fetch);

 private:
  enum class Eviction { kAny, kUnused };  ///< kUnused: of entries not used since the start

  std::optional<CacheEntry> obtain(const std::string& key, int64_t bytes, const std::string& name,
                                   const Fetch& fetch, Eviction eviction);
  std::optional<CacheEntry> find(const std::string& key, int64_t bytes);
  bool is_sound(const CacheEntry& entry, const std::string& key);
  void reserve(int64_t bytes, const std::string& name, const OwnedFd& draft);
  int64_t make_room(int64_t bytes, const OwnedFd& draft, Eviction eviction);
  void discard(const std::string& draft, int64_t bytes);
  int64_t evict(int64_t most, Eviction eviction) const;
  std::string path_of(const std::string& key) const { return folder_ + "/" + key; }

  const std::string folder_;
  const int64_t limit_;
  const std::chrono::milliseconds patience_;
  const std::filesystem::file_time_type start_;  ///< times of use are to the second
  std::atomic<bool> is_full_ = false;            ///< of entries used since the start
  std::mutex mutex_;                             // guards the next one
  std::unordered_set<std::string> sound_;        ///< keys whose checksum was right
};

}  // namespace accel
