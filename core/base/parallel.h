// Parallel loops and tasks on threads of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace accel {

/// Cores in the affinity mask of this process, at least 1.
size_t usable_cores();

/// Calls `work(i)` for each i in [0, count) on `threads` threads. `work` must not throw.
template <class Work>
void parallel_for(size_t count, size_t threads, const Work& work) {
  constexpr size_t kChunk = 16;
  std::atomic<size_t> next = 0;
  const auto take_chunks = [&] {
    for (size_t begin; (begin = next.fetch_add(kChunk)) < count;) {
      for (size_t i = begin; i < std::min(count, begin + kChunk); ++i) work(i);
    }
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(take_chunks);
  take_chunks();
}

/// Runs all `tasks`, each on its own thread, or in order on this one where `threads` is false.
/// Returns after all have ended; rethrows the first exception in the order of the list.
void parallel_invoke(bool threads, const std::vector<std::function<void()>>& tasks);

/// Runs tasks in the order in which they were added, on a fixed number of threads. The destructor
/// runs those that are left.
class TaskQueue {
 public:
  explicit TaskQueue(size_t threads);
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// The result is ready when the task has ended, and has its exception.
  std::future<void> add(std::packaged_task<void()> task);

 private:
  void run();

  std::mutex mutex_;  // guards the next two
  std::deque<std::packaged_task<void()>> tasks_;
  bool ends_ = false;
  std::condition_variable changed_;
  std::vector<std::jthread> threads_;
};

}  // namespace accel
