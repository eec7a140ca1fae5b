#include "runner/tokenizers/learn_merges.h"

#include <queue>
#include <unordered_map>
#include <utility>

namespace accel {
namespace {

constexpr int64_t kLeastCount = 2;

using PairKey = uint64_t;

PairKey key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct PairUse {
  int64_t count = 0;
  std::vector<uint32_t> words;  ///< where it occurs or did
};

struct RankedPair {
  int64_t count;
  PairKey key;
  bool operator<(const RankedPair& other) const {
    return count != other.count ? count < other.count : key > other.key;
  }
};

class MergeLearner {
 public:
  explicit MergeLearner(std::vector<CountedWord> words) : words_(std::move(words)) {
    for (uint32_t i = 0; i < words_.size(); ++i) count_pairs(i, 1);
    for (const auto& [key, use] : pairs_) queue_.push({use.count, key});
  }

  /// The most frequent pair, or false when none comes often enough.
  bool next(PairKey& key) {
    while (!queue_.empty()) {
      const RankedPair best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.key].count;
      if (count != best.count) {
        if (count >= kLeastCount) queue_.push({count, best.key});
        continue;
      }
      if (count < kLeastCount) return false;
      key = best.key;
      return true;
    }
    return false;
  }

  void merge(PairKey key, int32_t made) {
    const auto left = static_cast<int32_t>(key >> 32);
    const auto right = static_cast<int32_t>(key & 0xffffffff);
    const std::vector<uint32_t> places = std::move(pairs_[key].words);
    changed_.clear();
    uint32_t last = ~uint32_t{0};
    for (const uint32_t i : places) {
      if (i == last) continue;
      last = i;
      merge_in(i, left, right, made);
    }
    pairs_.erase(key);
    for (const PairKey other : changed_) {
      const auto found = pairs_.find(other);
      if (found != pairs_.end()) queue_.push({found->second.count, other});
    }
  }

 private:
  void count_pairs(uint32_t i, int sign) {
    const CountedWord& word = words_[i];
    for (size_t at = 0; at + 1 < word.symbols.size(); ++at) {
      const PairKey key = key_of(word.symbols[at], word.symbols[at + 1]);
      PairUse& use = pairs_[key];
      use.count += sign * word.count;
      if (sign < 0) continue;
      if (use.words.empty() || use.words.back() != i) use.words.push_back(i);
      changed_.push_back(key);
    }
  }

  void merge_in(uint32_t i, int32_t left, int32_t right, int32_t made) {
    std::vector<int32_t>& symbols = words_[i].symbols;
    size_t at = 0;
    while (at + 1 < symbols.size() && (symbols[at] != left || symbols[at + 1] != right)) ++at;
    if (at + 1 >= symbols.size()) return;
    count_pairs(i, -1);
    size_t kept = at;
    for (; at < symbols.size(); ++kept) {
      const bool both = at + 1 < symbols.size() && symbols[at] == left && symbols[at + 1] == right;
      symbols[kept] = both ? made : symbols[at];
      at += both ? 2 : 1;
    }
    symbols.resize(kept);
    count_pairs(i, 1);
  }

  std::vector<CountedWord> words_;
  std::unordered_map<PairKey, PairUse> pairs_;
  std::priority_queue<RankedPair> queue_;
  std::vector<PairKey> changed_;
};

}  // namespace

void learn_merges(std::vector<CountedWord> words,
                  const std::function<int32_t(int32_t left, int32_t right)>& make) {
  MergeLearner learner(std::move(words));
  PairKey key = 0;
  while (learner.next(key)) {
    const int32_t made =
        make(static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffff));
    if (made < 0) return;
    learner.merge(key, made);
  }
}

}  // namespace accel
