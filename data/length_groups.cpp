#include "data/length_groups.h"

#include <algorithm>
#include <utility>

namespace accel {

std::vector<int64_t> lengths_of(const Dataset& dataset) {
  const auto* known = dynamic_cast<const KnowsLengths*>(&dataset);
  if (!known || !known->lengths_known()) return {};
  std::vector<int64_t> lengths(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = known->length(static_cast<int64_t>(i));
  return lengths;
}

std::vector<int64_t> grouped_by_length(std::vector<int64_t> draws,
                                       const std::vector<int64_t>& lengths, int64_t batch) {
  constexpr int64_t kMostBatches = 50;
  constexpr int64_t kFewestStretches = 4;
  const auto count = static_cast<int64_t>(draws.size());
  const int64_t batches = std::clamp<int64_t>(count / (batch * kFewestStretches), 1, kMostBatches);
  const int64_t stretch = batches * batch;
  const auto length = [&](int64_t draw) {
    return lengths[static_cast<size_t>(draw) % lengths.size()];
  };
  auto longest = draws.begin();
  for (int64_t first = 0; first < count; first += stretch) {
    const auto begin = draws.begin() + first;
    const auto end = draws.begin() + std::min(first + stretch, count);
    std::stable_sort(begin, end, [&](int64_t a, int64_t b) { return length(a) > length(b); });
    if (length(*begin) > length(*longest)) longest = begin;
  }
  if (count > 0) std::iter_swap(draws.begin(), longest);
  return draws;
}

}  // namespace accel
