#include "core/base/parallel.h"

#include <sched.h>

#include <future>

namespace accel {

size_t usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return static_cast<size_t>(std::max(1, CPU_COUNT(&cores)));
}

void parallel_invoke(bool threads, const std::vector<std::function<void()>>& tasks) {
  const auto policy = threads ? std::launch::async : std::launch::deferred;
  std::vector<std::future<void>> running;
  for (const auto& task : tasks) running.push_back(std::async(policy, task));
  for (std::future<void>& task : running) task.get();
}

}  // namespace accel
