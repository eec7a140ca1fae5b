// Work of many independent pieces, on all cores that the process may use.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace accel {

/// Cores that this process may use, at least 1.
inline size_t usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return static_cast<size_t>(std::max(1, CPU_COUNT(&cores)));
}

/// Calls `work`, which must not throw, once for each of [0, count), on so many threads.
template <class Work>
void on_all_cores(size_t count, size_t threads, const Work& work) {
  constexpr size_t kPart = 16;
  std::atomic<size_t> next = 0;
  const auto take_parts = [&] {
    for (size_t begin; (begin = next.fetch_add(kPart)) < count;) {
      for (size_t i = begin; i < std::min(count, begin + kPart); ++i) work(i);
    }
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(take_parts);
  take_parts();
}

}  // namespace accel
