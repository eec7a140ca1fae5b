#include "data/store/object_cache.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntrySuffix = ".object";
constexpr const char* kDraftSuffix = ".incomplete";
constexpr const char* kSizeFile = "size";
constexpr int64_t kChecksumBytes = sizeof(uint64_t);
/// An eviction frees this fraction of the limit at once, since it takes a listing.
constexpr int64_t kHeadroom = 16;

[[noreturn]] void fail_on_file(const char* action, const std::string& path) {
  const int error = errno;
  throw IoError(text("cannot {} '{}': {}", action, path, std::strerror(error)),
                full_disk_hint(error));
}

void lock_file(const OwnedFd& fd, int kind, const std::string& path) {
  while (::flock(fd.get(), kind) != 0) {
    if (errno != EINTR) fail_on_file("lock", path);
  }
}

OwnedFd open_or_create(const std::string& path) {
  OwnedFd fd = open_fd(path, O_RDWR | O_CREAT);
  if (!fd) fail_on_file("open", path);
  return fd;
}

/// Sets the time of the last use, to the second: a file may be read thousands of times in one.
void mark_used(const OwnedFd& fd) {
  struct stat status = {};
  if (::fstat(fd.get(), &status) == 0 && status.st_mtime != std::time(nullptr)) {
    ::futimens(fd.get(), nullptr);
  }
}

/// Whether `path` still names the open file.
bool names_file(const std::string& path, const OwnedFd& fd) {
  struct stat here = {}, there = {};
  return ::fstat(fd.get(), &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

/// Locks a draft for its writer; false if it was published or removed meanwhile. Does not wait in
/// the kernel, since the entry that a draft becomes stays locked as long as it is in use.
bool lock_draft(const OwnedFd& fd, const std::string& draft) {
  constexpr std::chrono::milliseconds kPause{2};
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail_on_file("lock", draft);
    if (!names_file(draft, fd)) return false;
    std::this_thread::sleep_for(kPause);
  }
  return names_file(draft, fd);
}

void write_whole(const OwnedFd& fd, ByteSpan bytes, int64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd.get(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_on_file("write", path);
    bytes = bytes.subspan(static_cast<size_t>(count));
    at += count;
  }
}

/// The bytes of all files of the folder, shared by its processes.
class SharedSize {
 public:
  explicit SharedSize(const std::string& folder)
      : path_(folder + "/" + kSizeFile), fd_(open_or_create(path_)) {
    lock_file(fd_, LOCK_EX, path_);
  }

  /// None in a new folder.
  std::optional<int64_t> value() const {
    char digits[32] = {};
    const ssize_t count = ::pread(fd_.get(), digits, sizeof digits - 1, 0);
    int64_t out = 0;
    const auto parsed = std::from_chars(digits, digits + std::max<ssize_t>(count, 0), out);
    return parsed.ec == std::errc() ? std::optional(out) : std::nullopt;
  }
  void set(int64_t value) {
    const std::string digits = text("{}\n", std::max<int64_t>(value, 0));
    if (::ftruncate(fd_.get(), 0) != 0) fail_on_file("write", path_);
    write_whole(fd_, as_bytes(digits), 0, path_);
  }

 private:
  std::string path_;
  OwnedFd fd_;
};

struct CachedFile {
  std::string path;
  int64_t bytes = 0;
  fs::file_time_type used;
  bool is_draft = false;
};

std::vector<CachedFile> files_in(const std::string& folder) {
  std::vector<CachedFile> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension();
    if (extension != kEntrySuffix && extension != kDraftSuffix) continue;
    std::error_code gone;  // another process may have published it
    CachedFile file{it->path(), static_cast<int64_t>(it->file_size(gone)),
                    it->last_write_time(gone), extension == kDraftSuffix};
    if (!gone) out.push_back(std::move(file));
  }
  std::sort(out.begin(), out.end(), [](const CachedFile& a, const CachedFile& b) {
    return std::pair(!a.is_draft, a.used) < std::pair(!b.is_draft, b.used);
  });
  return out;
}

}  // namespace

void CacheEntry::read(int64_t first, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_.get(), out.data(), out.size(), first);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;  // the file shrank
    if (count <= 0) fail_on_file("read", path_);
    out = out.subspan(static_cast<size_t>(count));
    first += count;
  }
}

SharedBytes CacheEntry::map() && {
  if (bytes_ == 0) return {};
  const auto size = static_cast<size_t>(bytes_);
  void* const begin = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (begin == MAP_FAILED) fail_on_file("map", path_);
  struct Mapping {
    void* begin;
    size_t size;
    OwnedFd fd;
    ~Mapping() { ::munmap(begin, size); }
  };
  std::shared_ptr<const void> owner(new Mapping{begin, size, std::move(fd_)});
  return {{static_cast<const std::byte*>(begin), size}, std::move(owner)};
}

ObjectCache::ObjectCache(std::string folder, int64_t limit, std::chrono::milliseconds patience)
    : folder_(std::move(folder)),
      limit_(limit),
      patience_(patience),
      start_(fs::file_time_type::clock::now() - std::chrono::seconds(1)) {
  make_folder_of(path_of(kSizeFile));
}

CacheEntry ObjectCache::get(const std::string& key, int64_t bytes, const std::string& name,
                            const Fetch& fetch) {
  return std::move(*obtain(key, bytes, name, fetch, Eviction::kAny));
}

std::optional<CacheEntry> ObjectCache::get_if_room(const std::string& key, int64_t bytes,
                                                   const std::string& name, const Fetch& fetch) {
  return obtain(key, bytes, name, fetch, Eviction::kUnused);
}

std::optional<CacheEntry> ObjectCache::obtain(const std::string& key, int64_t bytes,
                                              const std::string& name, const Fetch& fetch,
                                              Eviction eviction) {
  const std::string path = path_of(key + kEntrySuffix), draft = path + kDraftSuffix;
  for (;;) {
    if (auto found = find(key, bytes)) return found;
    if (eviction == Eviction::kUnused && is_full_) return std::nullopt;
    OwnedFd fd = open_or_create(draft);
    if (!lock_draft(fd, draft)) continue;
    if (auto found = find(key, bytes)) {  // published before this draft was made
      ::unlink(draft.c_str());
      return found;
    }
    try {
      if (eviction == Eviction::kAny) {
        reserve(bytes + kChecksumBytes, name, fd);
      } else if (make_room(bytes + kChecksumBytes, fd, eviction) > 0) {
        is_full_ = true;  // each further eviction would list the whole folder
        ::unlink(draft.c_str());
        return std::nullopt;
      }
    } catch (...) {
      ::unlink(draft.c_str());
      throw;
    }
    try {
      XXH3_state_t state;
      XXH3_64bits_reset(&state);
      int64_t at = 0;
      fetch([&](ByteSpan part) {
        write_whole(fd, part, at, draft);
        XXH3_64bits_update(&state, part.data(), part.size());
        at += static_cast<int64_t>(part.size());
      });
      const uint64_t checksum = XXH3_64bits_digest(&state);
      write_whole(fd, std::as_bytes(std::span(&checksum, 1)), at, draft);
      const SharedSize listing(folder_);  // which would miss a file that is renamed meanwhile
      DiskFiles().rename(draft, path);
    } catch (...) {
      discard(draft, bytes + kChecksumBytes);
      throw;
    }
    lock_file(fd, LOCK_SH, path);
    const std::lock_guard lock(mutex_);
    sound_.insert(key);
    return CacheEntry(std::move(fd), bytes, path);
  }
}

std::optional<CacheEntry> ObjectCache::find(const std::string& key, int64_t bytes) {
  const std::string path = path_of(key + kEntrySuffix);
  OwnedFd fd = open_fd(path, O_RDWR);
  if (!fd) return std::nullopt;
  lock_file(fd, LOCK_SH, path);
  CacheEntry entry(std::move(fd), bytes, path);
  if (is_sound(entry, key)) {
    mark_used(entry.fd_);
    return entry;
  }
  warn(text("'{}' in the cache is damaged; it is fetched again", path));
  ::unlink(path.c_str());
  return std::nullopt;
}

/// Size and checksum, which are compared once in a process.
bool ObjectCache::is_sound(const CacheEntry& entry, const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    if (sound_.contains(key)) return true;
  }
  struct stat status = {};
  if (::fstat(entry.fd_.get(), &status) != 0 || status.st_size != entry.bytes_ + kChecksumBytes) {
    return false;
  }
  constexpr int64_t kBlock = int64_t{1} << 20;
  std::vector<std::byte> block(static_cast<size_t>(std::min(kBlock, entry.bytes_)));
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (int64_t at = 0; at < entry.bytes_;) {
    const auto part =
        std::span(block).first(static_cast<size_t>(std::min(kBlock, entry.bytes_ - at)));
    entry.read(at, part);
    XXH3_64bits_update(&state, part.data(), part.size());
    at += static_cast<int64_t>(part.size());
  }
  uint64_t checksum = 0;
  entry.read(entry.bytes_, std::as_writable_bytes(std::span(&checksum, 1)));
  if (checksum != XXH3_64bits_digest(&state)) return false;
  const std::lock_guard lock(mutex_);
  sound_.insert(key);
  return true;
}

/// Gives the draft its size, once there is room.
void ObjectCache::reserve(int64_t bytes, const std::string& name, const OwnedFd& draft) {
  if (bytes > limit_) {
    throw IoError(text("the cache '{}' of at most {} bytes cannot hold the {} bytes of '{}'",
                       folder_, limit_, bytes, name),
                  "raise 'streaming.cache_limit'");
  }
  constexpr std::chrono::milliseconds kPause{20};
  const auto until = std::chrono::steady_clock::now() + patience_;
  while (const int64_t used = make_room(bytes, draft, Eviction::kAny)) {
    if (std::chrono::steady_clock::now() >= until) {
      throw IoError(text("the cache '{}' has no room for '{}': {} of its {} bytes are in use",
                         folder_, name, used, limit_),
                    "raise 'streaming.cache_limit'");
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// 0 when there was room; else the bytes in use, and the draft stays empty.
int64_t ObjectCache::make_room(int64_t bytes, const OwnedFd& draft, Eviction eviction) {
  SharedSize size(folder_);
  std::optional<int64_t> used = size.value();
  if (!used || *used + bytes > limit_) {
    used = evict(std::max<int64_t>(limit_ - bytes - limit_ / kHeadroom, 0), eviction);
  }
  const bool fits = *used + bytes <= limit_;
  if (fits && ::ftruncate(draft.get(), bytes) != 0) fail_on_file("write", folder_);
  size.set(*used + (fits ? bytes : 0));
  return fits ? 0 : *used;
}

void ObjectCache::discard(const std::string& draft, int64_t bytes) {
  SharedSize size(folder_);
  ::unlink(draft.c_str());
  size.set(size.value().value_or(bytes) - bytes);
}

/// Removes abandoned drafts and the entries used least recently until at most `most` bytes are
/// left, except entries in use. Returns the bytes left.
int64_t ObjectCache::evict(int64_t most, Eviction eviction) const {
  const std::vector<CachedFile> files = files_in(folder_);
  int64_t used = 0;
  for (const CachedFile& file : files) used += file.bytes;
  for (const CachedFile& file : files) {
    const bool may_evict = eviction == Eviction::kAny || file.used < start_;
    if (!file.is_draft && (used <= most || !may_evict)) break;
    const OwnedFd fd = open_fd(file.path, O_RDWR);
    if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use
    if (file.is_draft && !names_file(file.path, fd)) continue;       // published meanwhile
    if (::unlink(file.path.c_str()) == 0) used -= file.bytes;
  }
  return used;
}

}  // namespace accel
