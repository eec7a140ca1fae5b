#include "data/prefetcher.h"

#include <stdexcept>
#include <utility>

namespace accel {

Prefetcher::Prefetcher(const PrefetchPlan& plan, MakeBatch make)
    : make_(std::move(make)),
      end_(plan.end),
      slots_(static_cast<size_t>(plan.ahead)),
      claimed_(plan.first),
      taken_(plan.first) {
  for (int64_t i = 0; i < plan.workers; ++i) threads_.emplace_back([this] { work(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
}

HostBatch Prefetcher::take() {
  std::unique_lock lock(mutex_);
  if (taken_ >= end_) throw std::logic_error("batches are taken beyond the last one");
  Slot& next = slot(taken_);
  ready_.wait(lock, [&] { return next.ready; });
  Slot done = std::exchange(next, Slot{});
  ++taken_;
  lock.unlock();
  room_.notify_one();
  if (done.error) std::rethrow_exception(done.error);
  return std::move(done.batch);
}

void Prefetcher::work() {
  const auto ahead = static_cast<int64_t>(slots_.size());
  while (true) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return stop_ || claimed_ >= end_ || claimed_ < taken_ + ahead; });
    if (stop_ || claimed_ >= end_) return;
    const int64_t ticket = claimed_++;
    lock.unlock();
    Slot made{.ready = true, .batch = {}, .error = {}};
    try {
      made.batch = make_(ticket);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    slot(ticket) = std::move(made);
    lock.unlock();
    ready_.notify_one();
  }
}

}  // namespace accel
