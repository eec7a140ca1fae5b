// Cache of encoded words.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace accel {

/// Bounded: a full shard takes no more words. Thread-safe.
class WordCache {
 public:
  /// Appends the ids of the word; false when it is not cached.
  bool find(std::string_view word, std::vector<int32_t>& ids) const {
    const size_t hash = std::hash<std::string_view>{}(word);
    Shard& shard = shards_[hash % kShards];
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.words.find(word);
    if (found == shard.words.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }

  void keep(std::string_view word, const int32_t* first, const int32_t* last) const {
    if (word.size() > kMaxWordBytes) return;
    Shard& shard = shards_[std::hash<std::string_view>{}(word) % kShards];
    const std::lock_guard lock(shard.mutex);
    if (shard.words.size() < kMaxWordsPerShard)
      shard.words.try_emplace(std::string(word), first, last);
  }

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kMaxWordsPerShard = 4096;
  static constexpr size_t kMaxWordBytes = 128;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words;
  };

  mutable std::array<Shard, kShards> shards_;
};

}  // namespace accel
