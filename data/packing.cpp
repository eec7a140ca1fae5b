#include "data/packing.h"

#include <algorithm>

namespace accel {
namespace {

constexpr size_t kOpenSamples = 64;

struct OpenSample {
  int64_t number;
  int64_t room;
};

}  // namespace

Packing::Packing(int64_t count, int64_t most, const std::function<int64_t(int64_t)>& length) {
  std::vector<OpenSample> open;
  std::vector<int64_t> sample_of(static_cast<size_t>(count)), sizes;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t tokens = length(i);
    auto place = std::find_if(open.begin(), open.end(),
                              [&](const OpenSample& sample) { return sample.room >= tokens; });
    if (place == open.end()) {
      if (open.size() == kOpenSamples) open.erase(open.begin());
      place = open.insert(open.end(), {static_cast<int64_t>(sizes.size()), most});
      sizes.push_back(0);
    }
    place->room -= tokens;
    sample_of[static_cast<size_t>(i)] = place->number;
    ++sizes[static_cast<size_t>(place->number)];
    if (place->room == 0) open.erase(place);
  }
  std::vector<int64_t> next;
  for (const int64_t size : sizes) {
    next.push_back(ends_.empty() ? 0 : ends_.back());
    ends_.push_back(next.back() + size);
  }
  members_.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t& at = next[static_cast<size_t>(sample_of[static_cast<size_t>(i)])];
    members_[static_cast<size_t>(at++)] = i;
  }
}

std::span<const int64_t> Packing::members(int64_t sample) const {
  const auto number = static_cast<size_t>(sample);
  const int64_t first = number == 0 ? 0 : ends_[number - 1];
  return std::span(members_).subspan(static_cast<size_t>(first),
                                     static_cast<size_t>(ends_[number] - first));
}

}  // namespace accel
