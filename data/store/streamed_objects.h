// The objects of a dataset in a store, read through the cache and fetched ahead of their use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "data/store/mapped_parts.h"
#include "data/store/object_cache.h"
#include "data/store/object_store.h"
#include "data/store/part_loader.h"
#include "data/store/streaming_section.h"

namespace accel {

/// Thread-safe after the last add(). Errors are those of ObjectStore and ObjectCache.
class StreamedObjects {
 public:
  /// Share of the cache that is fetched ahead; the rest holds what may be read again.
  static constexpr int64_t kAheadShare = 4;
  /// Size of the parts that read() fetches.
  static constexpr int64_t kBlockBytes = int64_t{1} << 20;
  /// Most bytes of single samples that are fetched ahead, which are in memory.
  static constexpr int64_t kSingleBytes = int64_t{64} << 20;
  /// Requests for single samples at a time, for each connection: they need little bandwidth.
  static constexpr int64_t kSinglesPerConnection = 4;

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
  int64_t total_bytes() const { return total_bytes_; }
  int64_t cache_limit() const { return cache_->limit(); }
  /// Most bytes of parts that are fetched and not yet read.
  int64_t ahead_bytes() const;
  /// Whether the cache had all blocks when they were read, and has lost none since.
  bool is_at_hand() const {
    return blocks_to_cache_ == 0 && !evicted_ && total_bytes_ <= cache_->limit();
  }
  /// Reads will be in an order without locality: of objects beyond the cache those blocks are
  /// fetched that it has room for, without eviction, and else the range of each read alone.
  void read_singly();
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
  void forget_ahead() { loader_.forget(); }

  ObjectPart block(size_t object, int64_t position) const;
  /// Appends the parts that a read of this range fetches, without one that is the last of `parts`
  /// already.
  void add_parts(size_t object, ByteRange range, std::vector<ObjectPart>& parts) const;
  ObjectPart whole(size_t object) const { return {object, {0, info(object).size}}; }

 private:
  struct Object {
    ObjectInfo info;
    std::string url;
    std::string key;                                  ///< of its entries in the cache
    std::unique_ptr<std::atomic<bool>[]> was_cached;  ///< each block
    /// The content of each block, once it is mapped for good; null before.
    std::unique_ptr<std::atomic<const std::byte*>[]> kept;
  };

  std::string key_of(const ObjectPart& part) const;
  ObjectCache::Fetch fetch_of(const ObjectPart& part, const std::stop_token& stop);
  bool is_block(const ObjectPart& part) const;
  std::atomic<bool>& was_cached(const ObjectPart& block) const;
  void set_cached(const ObjectPart& block);
  SharedBytes keep_mapped(const ObjectPart& block, const SharedBytes& bytes);
  bool copy_kept(size_t object, int64_t first, std::span<std::byte> out) const;
  bool is_at_hand(const ObjectPart& part) const;
  CacheEntry get(const ObjectPart& part, const std::stop_token& stop);
  SharedBytes mapped(const ObjectPart& block);
  SharedBytes mapped_if_room(const ObjectPart& block, const std::stop_token& stop);
  SharedBytes fetch_alone(const ObjectPart& part, const std::stop_token& stop);
  std::optional<SharedBytes> load(const ObjectPart& part, const std::stop_token& stop);
  template <class Use>
  bool each_block(const ObjectPart& part, const Use& use) const;

  const std::unique_ptr<ObjectStore> store_;
  const std::unique_ptr<ObjectCache> cache_;
  const int64_t connections_;
  std::vector<Object> objects_;
  int64_t total_bytes_ = 0;
  size_t blocks_ = 0;
  MappedParts mapped_;
  std::atomic<int64_t> blocks_to_cache_ = 0;  ///< that were not yet read from the cache
  std::atomic<bool> singly_ = false;
  std::atomic<bool> evicted_ = false;  ///< the cache lost a block that it had
  PartLoader loader_;                  // last: its threads use the other members
};

/// The objects of the folder `url`, none yet, with the options of a recipe. Throws DataError.
std::shared_ptr<StreamedObjects> stream_objects(const std::string& url,
                                                const StreamingSection& options);

/// A small object, such as an index, past the cache: a changed one is noticed. Throws DataError if
/// it is missing or larger than `most` bytes.
std::string read_object_text(ObjectStore& store, const std::string& name, int64_t most);

}  // namespace accel
