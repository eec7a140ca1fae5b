// On-disk cache of tokenized texts, shared by ranks and runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/datasets/text/token_sequences.h"

namespace accel {

/// A folder with one file per key. Safe for concurrent processes: files appear atomically and are
/// immutable. Errors never end a run.
class TokenCache {
 public:
  /// The folder is created by the first keep(). `limit`: maximum total bytes.
  explicit TokenCache(std::filesystem::path folder, int64_t limit = int64_t{16} << 30);

  /// The mapped entry of `key`; none if missing. A damaged file is removed with a warning.
  std::optional<TokenSequences> find(const std::string& key) const;
  /// Stores an entry, and evicts the least recently used ones beyond the limit; logs both. Returns
  /// the mapped entry, or `sequences` if it cannot be stored.
  TokenSequences keep(const std::string& key, TokenSequences sequences) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  void make_room(int64_t bytes) const;

  std::filesystem::path folder_;
  int64_t limit_;
};

/// The user's cache folder: $XDG_CACHE_HOME/accel-run or ~/.cache/accel-run; empty if the
/// environment has neither variable.
std::filesystem::path user_cache();

}  // namespace accel
