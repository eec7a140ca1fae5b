#include "data/datasets/text/token_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMark = {'A', 'C', 'C', 'E', 'L', 'T', 'K', '1'};
constexpr const char* kSuffix = ".tokens";

/// Header of an entry; the arrays follow in the order of their sizes.
struct Header {
  std::array<char, 8> mark = kMark;
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t segments = 0;   ///< 0, or the number of tokens
  uint64_t checksum = 0;  ///< XXH3 of the rest of the file
  std::array<int64_t, 3> unused = {};
};
static_assert(sizeof(Header) == 64);

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// The sequences of an entry; none if it is damaged.
std::optional<TokenSequences> sequences_in(const SharedBytes& file) {
  Header header;
  if (file.view.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file.view.data(), sizeof header);
  const std::span<const std::byte> body = file.view.subspan(sizeof header);
  const auto most = static_cast<int64_t>(body.size());
  const bool sane = header.mark == kMark && header.sequences >= 0 && header.sequences <= most / 8 &&
                    header.tokens >= 0 && header.tokens <= most / 4 &&
                    (header.segments == 0 || header.segments == header.tokens) &&
                    header.sequences * 8 + (header.tokens + header.segments) * 4 == most;
  if (!sane || checksum_of(body) != header.checksum) return std::nullopt;
  forget_pages(file, body);
  const auto part = [&](DType type, int64_t count, int64_t offset) {
    return Array(type, {count}, body.data() + offset, file.owner);
  };
  const int64_t tokens_at = header.sequences * 8;
  const int64_t segments_at = tokens_at + header.tokens * 4;
  return TokenSequences(
      part(DType::kI64, header.sequences, 0), part(DType::kI32, header.tokens, tokens_at),
      header.segments == 0 ? Array() : part(DType::kI32, header.segments, segments_at));
}

void write_entry(const fs::path& path, const TokenSequences& sequences) {
  const std::array<const Array*, 3> parts = {&sequences.ends(), &sequences.all_tokens(),
                                             &sequences.all_segments()};
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const Array* part : parts) XXH3_64bits_update(&state, part->data(), part->bytes());
  Header header{.sequences = parts[0]->count(), .tokens = parts[1]->count()};
  if (!parts[2]->empty()) header.segments = parts[2]->count();
  header.checksum = XXH3_64bits_digest(&state);
  make_folder_of(path.string());
  write_file_atomically(path.string(), [&](const ByteSink& write) {
    write(std::as_bytes(std::span(&header, 1)));
    for (const Array* part : parts) {
      if (!part->empty()) write({part->data(), part->bytes()});
    }
  });
}

std::string megabytes(int64_t bytes) {
  return text("{} MiB", (bytes + (1 << 20) - 1) >> 20);
}

struct Entry {
  fs::file_time_type used;
  int64_t bytes = 0;
  fs::path path;
};

std::vector<Entry> entries_in(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != kSuffix) continue;
    std::error_code gone;  // another process may have removed it
    Entry entry{it->last_write_time(gone), static_cast<int64_t>(it->file_size(gone)), it->path()};
    if (!gone) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  return entries;
}

}  // namespace

TokenCache::TokenCache(fs::path folder, int64_t limit)
    : folder_(std::move(folder)), limit_(limit) {}

fs::path TokenCache::file_of(const std::string& key) const {
  return folder_ / (key + kSuffix);
}

std::optional<TokenSequences> TokenCache::find(const std::string& key) const {
  const fs::path path = file_of(key);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  try {
    if (std::optional<TokenSequences> found = sequences_in(map_file(path))) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), error);
      say(text("tokens: read from the cache {}", path.string()));
      return found;
    }
  } catch (const DataError&) {  // unreadable, or removed by another process
  }
  warn(text("the cached tokens in '{}' are damaged; tokenizing again", path.string()));
  fs::remove(path, error);
  return std::nullopt;
}

TokenSequences TokenCache::keep(const std::string& key, TokenSequences sequences) const {
  const int64_t bytes = sequences.bytes() + static_cast<int64_t>(sizeof(Header));
  if (bytes > limit_) return sequences;
  const fs::path path = file_of(key);
  make_room(bytes);
  try {
    write_entry(path, sequences);
  } catch (const IoError&) {
    warn(text("cannot cache the tokens in '{}'; the next run tokenizes again", folder_.string()));
    return sequences;
  }
  say(text("tokens: cached in {}, {}", path.string(), megabytes(bytes)));
  try {
    if (std::optional<TokenSequences> mapped = sequences_in(map_file(path))) return *mapped;
  } catch (const DataError&) {  // another process may have made room
  }
  return sequences;
}

void TokenCache::make_room(int64_t bytes) const {
  const std::vector<Entry> entries = entries_in(folder_);
  int64_t total = bytes;
  for (const Entry& entry : entries) total += entry.bytes;
  for (const Entry& entry : entries) {
    if (total <= limit_) return;
    std::error_code error;
    if (fs::remove(entry.path, error)) say(text("tokens: removed {}", entry.path.string()));
    total -= entry.bytes;
  }
}

fs::path user_cache() {
  const fs::path cache = environment_variable("XDG_CACHE_HOME").value_or("");
  if (cache.is_absolute()) return cache / "accel-run";
  const fs::path home = environment_variable("HOME").value_or("");
  return home.is_absolute() ? home / ".cache" / "accel-run" : fs::path();
}

}  // namespace accel
