#include "data/store/streamed_objects.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/formatted.h"
#include "core/base/log.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "data/datasets/text/token_cache.h"

namespace accel {
namespace {

/// Share of the cache that stays mapped and is not evicted.
constexpr int64_t kMappedShare = 8;
constexpr int64_t kMostRequests = 256;
/// A reader waits so long for a single sample that is being fetched, then it fetches it itself: the
/// other request may be stalled.
constexpr std::chrono::milliseconds kSinglePatience{1000};

std::string gibibytes(int64_t bytes) {
  return formatted("%.2f GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

/// Copies the bytes that `block`, whose content is `bytes`, has of `part`.
void copy_common(const ObjectPart& part, const ObjectPart& block, ByteSpan bytes,
                 std::span<std::byte> out) {
  const int64_t first = std::max(part.range.first, block.range.first);
  const int64_t end =
      std::min(part.range.first + part.range.bytes, block.range.first + block.range.bytes);
  std::memcpy(out.data() + (first - part.range.first), bytes.data() + (first - block.range.first),
              static_cast<size_t>(end - first));
}

}  // namespace

StreamedObjects::StreamedObjects(std::unique_ptr<ObjectStore> store,
                                 std::unique_ptr<ObjectCache> cache, int64_t connections)
    : store_(std::move(store)),
      cache_(std::move(cache)),
      connections_(connections),
      mapped_(cache_->limit() / kMappedShare, most_open_files()),
      loader_({connections, ahead_bytes()},
              [this](const ObjectPart& part, const std::stop_token& stop) {
                return load(part, stop);
              }) {}

StreamedObjects::~StreamedObjects() = default;

void StreamedObjects::add(const std::vector<std::string>& names) {
  std::vector<std::optional<ObjectInfo>> found(names.size());
  std::atomic<size_t> next = 0;
  std::vector<std::function<void()>> tasks(
      std::min(static_cast<size_t>(connections_), names.size()), [&] {
        for (size_t i; (i = next.fetch_add(1)) < names.size();) found[i] = store_->find(names[i]);
      });
  parallel_invoke(true, tasks);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!found[i]) throw DataError(text("'{}' does not exist", store_->url_of(names[i])));
    add(*found[i]);
  }
}

void StreamedObjects::add(const ObjectInfo& object) {
  const auto blocks = static_cast<size_t>(object.size / kBlockBytes + 1);
  objects_.push_back({object,
                      store_->url_of(object.name),
                      {},
                      std::make_unique<std::atomic<bool>[]>(blocks),
                      std::make_unique<std::atomic<const std::byte*>[]>(blocks)});
  total_bytes_ += object.size;
  const int64_t whole_blocks = (object.size + kBlockBytes - 1) / kBlockBytes;
  blocks_ += static_cast<size_t>(whole_blocks);
  blocks_to_cache_ += whole_blocks;
  const size_t index = objects_.size() - 1;
  objects_[index].key = *named_digest("xxh3_128", objects_[index].url + '\n' + identity(index));
}

int64_t StreamedObjects::ahead_bytes() const {
  const int64_t share = cache_->limit() / kAheadShare;
  return singly_ ? std::min(share, kSingleBytes) : share;
}

void StreamedObjects::read_singly() {
  if (total_bytes_ <= cache_->limit() || singly_.exchange(true)) return;
  loader_.set_limits(
      {std::min(connections_ * kSinglesPerConnection, kMostRequests), ahead_bytes()});
}

std::string StreamedObjects::identity(size_t object) const {
  const ObjectInfo& info = objects_[object].info;
  return info.name + '\0' + std::to_string(info.size) + '\0' + info.version;
}

void StreamedObjects::say_summary(const std::string& url) const {
  say(text("data: streaming '{}', {} objects, {}, through the cache '{}' of at most {}", url,
           objects_.size(), gibibytes(total_bytes()), cache_->folder(),
           gibibytes(cache_->limit())));
}

ObjectPart StreamedObjects::block(size_t object, int64_t position) const {
  const int64_t first = position / kBlockBytes * kBlockBytes;
  return {object, {first, std::min(kBlockBytes, info(object).size - first)}};
}

/// Calls `use` with each block of the part until it returns false; whether it never did.
template <class Use>
bool StreamedObjects::each_block(const ObjectPart& part, const Use& use) const {
  const int64_t end = part.range.first + part.range.bytes;
  for (int64_t at = part.range.first; at < end;) {
    const ObjectPart piece = block(part.object, at);
    if (!use(piece)) return false;
    at = piece.range.first + piece.range.bytes;
  }
  return true;
}

void StreamedObjects::add_parts(size_t object, ByteRange range,
                                std::vector<ObjectPart>& parts) const {
  const auto add = [&](const ObjectPart& part) {
    if (parts.empty() || !(parts.back() == part)) parts.push_back(part);
    return true;
  };
  const ObjectPart all{object, range};
  singly_ ? add(all) : each_block(all, add);
}

bool StreamedObjects::is_block(const ObjectPart& part) const {
  return part == block(part.object, part.range.first);
}

std::atomic<bool>& StreamedObjects::was_cached(const ObjectPart& block) const {
  return objects_[block.object].was_cached[static_cast<size_t>(block.range.first / kBlockBytes)];
}

void StreamedObjects::set_cached(const ObjectPart& block) {
  if (!was_cached(block).exchange(true)) --blocks_to_cache_;
}

/// Whether the cache had the blocks of the part and keeps them.
bool StreamedObjects::is_at_hand(const ObjectPart& part) const {
  const bool keeps = !evicted_ && (singly_ || total_bytes_ <= cache_->limit());
  return keeps && each_block(part, [this](const ObjectPart& piece) -> bool {
           return was_cached(piece).load(std::memory_order_relaxed);
         });
}

std::string StreamedObjects::key_of(const ObjectPart& part) const {
  return text("{}-{}-{}", objects_[part.object].key, part.range.first, part.range.bytes);
}

ObjectCache::Fetch StreamedObjects::fetch_of(const ObjectPart& part, const std::stop_token& stop) {
  return [this, part, stop](const ByteSink& write) {
    if (is_block(part) && was_cached(part)) evicted_ = true;
    store_->read(objects_[part.object].info, part.range, write, stop);
  };
}

CacheEntry StreamedObjects::get(const ObjectPart& part, const std::stop_token& stop) {
  CacheEntry entry =
      cache_->get(key_of(part), part.range.bytes, objects_[part.object].url, fetch_of(part, stop));
  if (is_block(part)) set_cached(part);
  return entry;
}

SharedBytes StreamedObjects::mapped(const ObjectPart& block) {
  SharedBytes bytes = mapped_.find(block);
  if (bytes.owner) return bytes;
  loader_.take(block);
  bytes = keep_mapped(block, get(block, {}).map());
  loader_.take(block);  // announced before it was mapped
  return bytes;
}

/// Without an owner if the cache does not have the block and has no room for it.
SharedBytes StreamedObjects::mapped_if_room(const ObjectPart& block, const std::stop_token& stop) {
  SharedBytes bytes = mapped_.find(block);
  if (bytes.owner) return bytes;
  std::optional<CacheEntry> entry = cache_->get_if_room(
      key_of(block), block.range.bytes, objects_[block.object].url, fetch_of(block, stop));
  if (!entry) {
    if (was_cached(block).exchange(false)) evicted_ = true;
    return {};
  }
  set_cached(block);
  return keep_mapped(block, std::move(*entry).map());
}

/// Adds a block to those that stay mapped. Where all objects fit, it stays for good, and reads find
/// it without a lock.
SharedBytes StreamedObjects::keep_mapped(const ObjectPart& block, const SharedBytes& bytes) {
  SharedBytes out = mapped_.add(block, bytes);
  if (mapped_.can_hold(total_bytes_, blocks_)) {
    objects_[block.object].kept[static_cast<size_t>(block.range.first / kBlockBytes)].store(
        out.view.data(), std::memory_order_release);
  }
  return out;
}

/// False if a block of the range is not mapped for good.
bool StreamedObjects::copy_kept(size_t object, int64_t first, std::span<std::byte> out) const {
  const auto& kept = objects_[object].kept;
  while (!out.empty()) {
    const int64_t block = first / kBlockBytes, offset = first % kBlockBytes;
    const std::byte* const from = kept[static_cast<size_t>(block)].load(std::memory_order_acquire);
    if (from == nullptr) return false;
    const size_t count = std::min(out.size(), static_cast<size_t>(kBlockBytes - offset));
    std::memcpy(out.data(), from + offset, count);
    out = out.subspan(count);
    first += static_cast<int64_t>(count);
  }
  return true;
}

SharedBytes StreamedObjects::fetch_alone(const ObjectPart& part, const std::stop_token& stop) {
  const auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(static_cast<size_t>(part.range.bytes));
  store_->read(
      objects_[part.object].info, part.range,
      [&](ByteSpan more) { bytes->insert(bytes->end(), more.begin(), more.end()); }, stop);
  return {*bytes, bytes};
}

void StreamedObjects::read(size_t object, int64_t first, std::span<std::byte> out) {
  if (copy_kept(object, first, out)) return;
  const ObjectPart part{object, {first, static_cast<int64_t>(out.size())}};
  if (!singly_) {
    each_block(part, [&](const ObjectPart& piece) {
      copy_common(part, piece, mapped(piece).view, out);
      return true;
    });
    return;
  }
  const std::optional<SharedBytes> ahead = loader_.take(part, kSinglePatience);
  const bool is_copied = !(ahead && ahead->owner) && each_block(part, [&](const ObjectPart& piece) {
    // A block that a thread fetches ahead may be stalled.
    const SharedBytes bytes = was_cached(piece) ? mapped_if_room(piece, {}) : SharedBytes{};
    if (bytes.owner) copy_common(part, piece, bytes.view, out);
    return bytes.owner != nullptr;
  });
  if (is_copied) return;
  copy_common(part, part, (ahead && ahead->owner ? *ahead : fetch_alone(part, {})).view, out);
}

SharedBytes StreamedObjects::map(size_t object) {
  const ObjectPart part = whole(object);
  if (part.range.bytes == 0) return {};
  loader_.take(part);
  return get(part, {}).map();
}

void StreamedObjects::read_ahead(const std::vector<ObjectPart>& parts) {
  std::vector<ObjectPart> missing;
  for (const ObjectPart& part : parts) {
    if (part.range.bytes > 0 && !is_at_hand(part)) missing.push_back(part);
  }
  loader_.announce(missing);
}

/// Of an announced part.
std::optional<SharedBytes> StreamedObjects::load(const ObjectPart& part,
                                                 const std::stop_token& stop) {
  if (!singly_) {
    if (!mapped_.find(part).owner) get(part, stop);
    return SharedBytes{};  // it is in the cache
  }
  const bool is_in_cache = each_block(
      part, [&](const ObjectPart& piece) { return mapped_if_room(piece, stop).owner != nullptr; });
  return is_in_cache ? std::nullopt : std::optional(fetch_alone(part, stop));
}

std::shared_ptr<StreamedObjects> stream_objects(const std::string& url,
                                                const StreamingSection& options) {
  const std::string folder =
      options.local ? (*options.local).text : (user_cache() / "objects").string();
  if (!options.local && user_cache().empty()) {
    throw DataError("no folder for the cache: neither XDG_CACHE_HOME nor HOME is set",
                    "name one as 'streaming.local'");
  }
  const TransferPolicy policy{.retries = options.download_retry,
                              .stall_seconds = options.download_timeout};
  return std::make_shared<StreamedObjects>(
      open_store(url, store_context(policy)),
      std::make_unique<ObjectCache>(folder, options.cache_limit.bytes), options.connections);
}

std::string read_object_text(ObjectStore& store, const std::string& name, int64_t most) {
  const std::string url = store.url_of(name);
  const auto object = store.find(name);
  if (!object) throw DataError(text("'{}' does not exist", url), "check 'path'");
  if (object->size > most) {
    throw DataError(text("'{}' has {} bytes, more than {}", url, object->size, most),
                    "check 'path'");
  }
  std::string out;
  if (object->size == 0) return out;
  store.read(*object, {0, object->size}, [&](ByteSpan bytes) { out += as_text(bytes); }, {});
  return out;
}

}  // namespace accel
