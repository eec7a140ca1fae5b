#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace accel {

std::vector<int64_t> steps_to_delete(const std::vector<KeepCandidate>& candidates,
                                     const KeepPolicy& policy) {
  if (policy.last <= 0) return {};
  std::set<int64_t> kept;
  std::vector<KeepCandidate> ranked;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto newer = static_cast<int64_t>(candidates.size() - 1 - i);
    if (newer < policy.last) kept.insert(candidates[i].step);
    const std::optional<double>& metric = candidates[i].metric;
    if (metric && !std::isnan(*metric)) ranked.push_back(candidates[i]);
  }
  const bool larger_is_better = policy.mode == KeepPolicy::Mode::kMax;
  std::stable_sort(ranked.begin(), ranked.end(),
                   [larger_is_better](const KeepCandidate& a, const KeepCandidate& b) {
                     return larger_is_better ? *a.metric > *b.metric : *a.metric < *b.metric;
                   });
  const auto best =
      std::min<size_t>(ranked.size(), static_cast<size_t>(std::max<int64_t>(policy.best, 0)));
  for (size_t i = 0; i < best; ++i) kept.insert(ranked[i].step);

  std::vector<int64_t> out;
  for (const KeepCandidate& candidate : candidates) {
    if (!kept.contains(candidate.step)) out.push_back(candidate.step);
  }
  return out;
}

}  // namespace accel
