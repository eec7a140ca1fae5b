#include "data/store/streamed_objects.h"

#include <algorithm>
#include <atomic>
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

/// Share of the cache, and number of files, that stay open and are not evicted.
constexpr int64_t kOpenShare = 8;
constexpr size_t kMostOpen = 256;

std::string gibibytes(int64_t bytes) {
  return formatted("%.2f GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

}  // namespace

StreamedObjects::StreamedObjects(std::unique_ptr<ObjectStore> store,
                                 std::unique_ptr<ObjectCache> cache, int64_t connections)
    : store_(std::move(store)), cache_(std::move(cache)), connections_(connections) {}

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
  objects_.push_back({object, store_->url_of(object.name), {}});
  const size_t index = objects_.size() - 1;
  objects_[index].key = *named_digest("xxh3_128", objects_[index].url + '\n' + identity(index));
}

int64_t StreamedObjects::total_bytes() const {
  int64_t sum = 0;
  for (const Object& object : objects_) sum += object.info.size;
  return sum;
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

void StreamedObjects::add_blocks(size_t object, ByteRange range,
                                 std::vector<ObjectPart>& parts) const {
  for (int64_t at = range.first; at < range.first + range.bytes;) {
    const ObjectPart part = block(object, at);
    if (parts.empty() || !(parts.back() == part)) parts.push_back(part);
    at = part.range.first + part.range.bytes;
  }
}

CacheEntry StreamedObjects::get(const ObjectPart& part, const std::stop_token& stop) {
  const Object& object = objects_[part.object];
  const std::string key = text("{}-{}-{}", object.key, part.range.first, part.range.bytes);
  return cache_->get(key, part.range.bytes, object.url, [&](const ByteSink& write) {
    store_->read(object.info, part.range, write, stop);
  });
}

/// The entries read last stay open: to open one costs more than to read a sample.
std::shared_ptr<const CacheEntry> StreamedObjects::opened(const ObjectPart& part) {
  {
    const std::lock_guard lock(open_mutex_);
    const auto found = open_.find(part);
    if (found != open_.end()) {
      found->second.last_read = ++reads_;
      return found->second.entry;
    }
  }
  const auto entry = std::make_shared<const CacheEntry>(get(part, {}));
  const std::lock_guard lock(open_mutex_);
  if (open_.insert_or_assign(part, OpenPart{entry, ++reads_}).second) {
    open_bytes_ += part.range.bytes;
  }
  while (open_.size() > kMostOpen || open_bytes_ > cache_->limit() / kOpenShare) {
    const auto oldest = std::min_element(
        open_.begin(), open_.end(),
        [](const auto& a, const auto& b) { return a.second.last_read < b.second.last_read; });
    open_bytes_ -= oldest->first.range.bytes;
    open_.erase(oldest);
  }
  return entry;
}

void StreamedObjects::read(size_t object, int64_t first, std::span<std::byte> out) {
  while (!out.empty()) {
    const ObjectPart part = block(object, first);
    const int64_t inside = first - part.range.first;
    const auto count = std::min(static_cast<int64_t>(out.size()), part.range.bytes - inside);
    take_ahead(part);
    opened(part)->read(inside, out.first(static_cast<size_t>(count)));
    out = out.subspan(static_cast<size_t>(count));
    first += count;
  }
}

SharedBytes StreamedObjects::map(size_t object) {
  const ObjectPart part = whole(object);
  if (part.range.bytes == 0) return {};
  take_ahead(part);
  return get(part, {}).map();
}

void StreamedObjects::read_ahead(const std::vector<ObjectPart>& parts) {
  {
    const std::lock_guard lock(mutex_);
    for (const ObjectPart& part : parts) {
      if (part.range.bytes > 0 && ahead_.try_emplace(part).second) queue_.push_back(part);
    }
    while (static_cast<int64_t>(threads_.size()) < connections_) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }
  changed_.notify_all();
}

void StreamedObjects::forget_ahead() {
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    for (auto it = ahead_.begin(); it != ahead_.end();) {
      if (it->second.state == State::kReady) loaded_bytes_ -= it->first.range.bytes;
      const bool is_loading = it->second.state == State::kLoading;
      if (is_loading) it->second.state = State::kReadEarly;
      it = is_loading || it->second.state == State::kReadEarly ? std::next(it) : ahead_.erase(it);
    }
  }
  changed_.notify_all();
}

/// Called before a part is read. Throws the error of its fetch.
void StreamedObjects::take_ahead(const ObjectPart& part) {
  std::unique_lock lock(mutex_);
  const auto found = ahead_.find(part);
  if (found == ahead_.end()) return;
  if (found->second.state == State::kLoading) found->second.state = State::kReadEarly;
  if (found->second.state == State::kReadEarly) return;
  const Ahead ahead = found->second;
  ahead_.erase(found);
  if (ahead.state == State::kQueued) return;  // its entry of the queue is skipped
  loaded_bytes_ -= part.range.bytes;
  lock.unlock();
  changed_.notify_all();
  if (ahead.error) std::rethrow_exception(ahead.error);
}

/// Whether the first part of the queue can be fetched, or skipped.
bool StreamedObjects::may_load() const {
  if (queue_.empty()) return false;
  const auto found = ahead_.find(queue_.front());
  return found == ahead_.end() || found->second.state != State::kQueued || loaded_bytes_ == 0 ||
         loaded_bytes_ + queue_.front().range.bytes <= ahead_bytes();
}

void StreamedObjects::work(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return may_load(); })) return;
    const ObjectPart part = queue_.front();
    queue_.pop_front();
    const auto found = ahead_.find(part);
    if (found == ahead_.end() || found->second.state != State::kQueued) continue;
    found->second.state = State::kLoading;
    loaded_bytes_ += part.range.bytes;
    lock.unlock();
    load(part, stop);
  }
}

void StreamedObjects::load(const ObjectPart& part, const std::stop_token& stop) {
  std::exception_ptr error;
  try {
    get(part, stop);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = ahead_.find(part);
    if (found->second.state == State::kReadEarly) {
      ahead_.erase(found);
      loaded_bytes_ -= part.range.bytes;
    } else {
      found->second = {State::kReady, error};
    }
  }
  changed_.notify_all();
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
