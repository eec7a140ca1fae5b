// Ids of words that were seen before.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace accel {

/// Bounded: what comes when it is full is not kept. Several threads may use it at once.
class WordCache {
 public:
  /// Appends the ids of the word; false when they are not known.
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
    if (word.size() > kLongestWord) return;
    Shard& shard = shards_[std::hash<std::string_view>{}(word) % kShards];
    const std::lock_guard lock(shard.mutex);
    if (shard.words.size() < kWordsOfShard) shard.words.try_emplace(std::string(word), first, last);
  }

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kWordsOfShard = 4096;
  static constexpr size_t kLongestWord = 128;

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
