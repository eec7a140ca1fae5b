// The objects of a dataset in a store, read through the cache and fetched ahead of their use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/store/object_cache.h"
#include "data/store/object_store.h"
#include "data/store/streaming_section.h"

namespace accel {

/// A part of an object that is fetched and cached as one.
struct ObjectPart {
  size_t object = 0;
  ByteRange range;

  auto operator<=>(const ObjectPart& other) const {
    return std::pair(object, range.first) <=> std::pair(other.object, other.range.first);
  }
  bool operator==(const ObjectPart& other) const { return (*this <=> other) == 0; }
};

/// Thread-safe after the last add(). Errors are those of ObjectStore and ObjectCache.
class StreamedObjects {
 public:
  /// Share of the cache that is fetched ahead; the rest holds what may be read again.
  static constexpr int64_t kAheadShare = 4;
  /// Size of the parts that read() fetches.
  static constexpr int64_t kBlockBytes = int64_t{1} << 20;

  StreamedObjects(std::unique_ptr<ObjectStore> store, std::unique_ptr<ObjectCache> cache,
                  int64_t connections);
  ~StreamedObjects();

  ObjectStore& store() { return *store_; }
  /// The next objects, by number from 0. Throws DataError for a missing one.
  void add(const std::vector<std::string>& names);
  void add(const ObjectInfo& object);
  size_t count() const { return objects_.size(); }
  const ObjectInfo& info(size_t object) const { return objects_[object].info; }
  const std::string& url_of(size_t object) const { return objects_[object].url; }
  int64_t total_bytes() const;
  int64_t cache_limit() const { return cache_->limit(); }
  /// Most bytes of parts that are fetched and not yet read.
  int64_t ahead_bytes() const { return cache_->limit() / kAheadShare; }
  /// Name, size and version of an object, which stand for its content.
  std::string identity(size_t object) const;
  /// Says what is streamed through which cache.
  void say_summary(const std::string& url) const;

  /// Copies bytes of an object; fetches its blocks.
  void read(size_t object, int64_t first, std::span<std::byte> out);
  /// The whole object, which stays in the cache as long as the bytes are in use.
  SharedBytes map(size_t object);

  /// Parts that will be read, in this order: they are fetched as far as parts
  /// that are not yet read take at most ahead_bytes().
  void read_ahead(const std::vector<ObjectPart>& parts);
  /// Forgets parts that were announced.
  void forget_ahead();

  ObjectPart block(size_t object, int64_t position) const;
  /// Appends the blocks of a range, without one that is the last of `parts` already.
  void add_blocks(size_t object, ByteRange range, std::vector<ObjectPart>& parts) const;
  ObjectPart whole(size_t object) const { return {object, {0, info(object).size}}; }

 private:
  enum class State { kQueued, kLoading, kReady, kReadEarly };
  struct Ahead {
    State state = State::kQueued;
    std::exception_ptr error = {};  ///< of a ready part that could not be fetched
  };

  struct Object {
    ObjectInfo info;
    std::string url;
    std::string key;  ///< of its entries in the cache
  };

  /// An entry that stays open for further reads.
  struct OpenPart {
    std::shared_ptr<const CacheEntry> entry;
    int64_t last_read = 0;
  };

  bool may_load() const;
  CacheEntry get(const ObjectPart& part, const std::stop_token& stop);
  std::shared_ptr<const CacheEntry> opened(const ObjectPart& part);
  void take_ahead(const ObjectPart& part);
  void work(const std::stop_token& stop);
  void load(const ObjectPart& part, const std::stop_token& stop);

  const std::unique_ptr<ObjectStore> store_;
  const std::unique_ptr<ObjectCache> cache_;
  const int64_t connections_;
  std::vector<Object> objects_;
  std::mutex open_mutex_;  // guards the next three
  std::map<ObjectPart, OpenPart> open_;
  int64_t open_bytes_ = 0;
  int64_t reads_ = 0;
  std::mutex mutex_;  // guards the next three
  std::deque<ObjectPart> queue_;
  std::map<ObjectPart, Ahead> ahead_;
  int64_t loaded_bytes_ = 0;  ///< of parts that are loading or ready
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last: they use the other members
};

/// The objects of the folder `url`, none yet, with the options of a recipe. Throws DataError.
std::shared_ptr<StreamedObjects> stream_objects(const std::string& url,
                                                const StreamingSection& options);

/// A small object, such as an index, past the cache: a changed one is noticed. Throws DataError if
/// it is missing or larger than `most` bytes.
std::string read_object_text(ObjectStore& store, const std::string& name, int64_t most);

}  // namespace accel
