#include "core/base/parallel.h"

#include <sched.h>

#include <utility>

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

TaskQueue::TaskQueue(size_t threads) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

TaskQueue::~TaskQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
}

std::future<void> TaskQueue::add(std::packaged_task<void()> task) {
  std::future<void> done = task.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return done;
}

void TaskQueue::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace accel
