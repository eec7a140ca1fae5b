// Tokens of large texts, kept on disk so that ranks and later runs need not make them again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/token_sequences.h"

namespace accel {

/// A folder of files named by what they were made from. Safe for several processes at once: files
/// appear whole or not at all, and are never changed. Nothing that goes wrong in it ends a run.
class TokenCache {
 public:
  /// Made when something is kept first. `limit` bytes are kept at most.
  explicit TokenCache(std::filesystem::path folder, int64_t limit = int64_t{16} << 30);

  /// What was kept under `key`, mapped from its file; nothing when there is none. A damaged file is
  /// removed and told of.
  std::optional<TokenSequences> find(const std::string& key) const;
  /// Keeps them under `key`, and removes those not used for longest where the limit asks for it;
  /// both are told of. Returns them as find() would, or as they are when they cannot be kept.
  TokenSequences keep(const std::string& key, TokenSequences sequences) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  void make_room(int64_t bytes) const;

  std::filesystem::path folder_;
  int64_t limit_;
};

/// Where caches of a user lie: $XDG_CACHE_HOME/accel-run, or ~/.cache/accel-run; empty when the
/// environment names neither.
std::filesystem::path user_cache();

}  // namespace accel
