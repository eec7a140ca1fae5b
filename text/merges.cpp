#include "text/merges.h"

#include <limits>
#include <queue>

namespace accel {
namespace {

// Up to this length a scan of all pairs after each merge is faster than a queue.
constexpr size_t kShortWord = 64;

struct MergeCandidate {
  int32_t rank;
  int32_t position;
  int32_t merged;
  int32_t left;  ///< symbols when the candidate was queued
  int32_t right;
  bool operator>(const MergeCandidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

void MergeTable::apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() <= kShortWord) {
    apply_to_short(symbols);
  } else {
    apply_to_long(symbols);
  }
}

void MergeTable::apply_to_short(std::vector<int32_t>& symbols) const {
  constexpr Merge kNone = {std::numeric_limits<int32_t>::max(), 0};
  const auto rule = [&](size_t i) {
    const Merge* merge = find(symbols[i], symbols[i + 1]);
    return merge ? *merge : kNone;
  };
  Merge rules[kShortWord];  // of each symbol with the next
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) rules[i] = rule(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == kNone.rank) break;
    symbols[best] = rules[best].merged;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      rules[i] = rules[i + 1];
    }
    --count;
    if (best + 1 < count) rules[best] = rule(best);
    if (best > 0) rules[best - 1] = rule(best - 1);
  }
  symbols.resize(count);
}

void MergeTable::apply_to_long(std::vector<int32_t>& symbols) const {
  const auto count = static_cast<int32_t>(symbols.size());
  std::vector<int32_t> next(symbols.size()), previous(symbols.size());
  std::vector<bool> gone(symbols.size());
  std::priority_queue<MergeCandidate, std::vector<MergeCandidate>, std::greater<>> queue;
  const auto at = [&](int32_t i) -> int32_t& { return symbols[static_cast<size_t>(i)]; };
  const auto after = [&](int32_t i) -> int32_t& { return next[static_cast<size_t>(i)]; };
  const auto before = [&](int32_t i) -> int32_t& { return previous[static_cast<size_t>(i)]; };
  const auto consider = [&](int32_t i) {
    if (i < 0 || after(i) == count) return;
    const int32_t right = at(after(i));
    if (const Merge* merge = find(at(i), right)) {
      queue.push({merge->rank, i, merge->merged, at(i), right});
    }
  };
  for (int32_t i = 0; i < count; ++i) {
    after(i) = i + 1;
    before(i) = i - 1;
  }
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    const MergeCandidate best = queue.top();
    queue.pop();
    const auto position = static_cast<size_t>(best.position);
    const int32_t right = after(best.position);
    if (gone[position] || right == count || at(best.position) != best.left ||
        at(right) != best.right) {
      continue;
    }
    at(best.position) = best.merged;
    gone[static_cast<size_t>(right)] = true;
    after(best.position) = after(right);
    if (after(right) < count) before(after(right)) = best.position;
    consider(before(best.position));
    consider(best.position);
  }
  size_t kept = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (!gone[i]) symbols[kept++] = symbols[i];
  }
  symbols.resize(kept);
}

}  // namespace accel
