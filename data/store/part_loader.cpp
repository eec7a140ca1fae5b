#include "data/store/part_loader.h"

namespace accel {

/// All at once: each thread may be in a request.
PartLoader::~PartLoader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void PartLoader::set_limits(const LoaderLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

void PartLoader::announce(const std::vector<ObjectPart>& parts) {
  if (parts.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const ObjectPart& part : parts) {
    if (announced_.try_emplace(part).second) queue_.push_back(part);
  }
  while (static_cast<int64_t>(threads_.size()) < limits_.threads) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  wake();
}

void PartLoader::forget() {
  const std::lock_guard lock(mutex_);
  queue_.clear();
  for (auto it = announced_.begin(); it != announced_.end();) {
    const bool is_loading =
        it->second.state == State::kLoading || it->second.state == State::kForgotten;
    if (is_loading) it->second.state = State::kForgotten;
    if (it->second.state == State::kReady) loaded_bytes_ -= it->first.range.bytes;
    it = is_loading ? std::next(it) : announced_.erase(it);
  }
  loaded_.notify_all();
}

std::optional<SharedBytes> PartLoader::take(const ObjectPart& part,
                                            std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  auto found = announced_.find(part);
  // Another thread may take the part meanwhile, so that it is looked up again.
  const auto is_loaded = [&] {
    found = announced_.find(part);
    return found == announced_.end() || found->second.state != State::kLoading;
  };
  if (patience == std::chrono::milliseconds::max()) {
    loaded_.wait(lock, is_loaded);
  } else if (!loaded_.wait_for(lock, patience, is_loaded)) {
    found->second.state = State::kForgotten;
  }
  if (found == announced_.end() || found->second.state == State::kForgotten) return std::nullopt;
  const Announced taken = std::move(found->second);
  announced_.erase(found);
  if (taken.state == State::kQueued) return std::nullopt;  // its entry of the queue is skipped
  loaded_bytes_ -= part.range.bytes;
  wake();
  lock.unlock();
  if (taken.error) std::rethrow_exception(taken.error);
  return taken.bytes;
}

/// Whether the first part of the queue can be loaded, or skipped.
bool PartLoader::may_load() const {
  if (queue_.empty()) return false;
  const auto found = announced_.find(queue_.front());
  return found == announced_.end() || found->second.state != State::kQueued || loaded_bytes_ == 0 ||
         loaded_bytes_ + queue_.front().range.bytes <= limits_.bytes;
}

/// One thread, which wakes the next: most announcements and reads leave nothing to do.
void PartLoader::wake() {
  if (may_load()) may_load_.notify_one();
}

void PartLoader::work(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!may_load_.wait(lock, stop, [this] { return may_load(); })) return;
    const ObjectPart part = queue_.front();
    queue_.pop_front();
    const auto found = announced_.find(part);
    const bool is_wanted = found != announced_.end() && found->second.state == State::kQueued;
    if (is_wanted) {
      found->second.state = State::kLoading;
      loaded_bytes_ += part.range.bytes;
    }
    wake();
    lock.unlock();
    if (is_wanted) load(part, stop);
  }
}

void PartLoader::load(const ObjectPart& part, const std::stop_token& stop) {
  Announced done{State::kReady, {}, {}};
  bool takes_room = true;
  try {
    const std::optional<SharedBytes> bytes = load_(part, stop);
    takes_room = bytes.has_value();
    if (bytes) done.bytes = *bytes;
  } catch (...) {
    done.error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  const auto found = announced_.find(part);
  if (found->second.state == State::kForgotten || !takes_room) {
    announced_.erase(found);
    loaded_bytes_ -= part.range.bytes;
    wake();
  } else {
    found->second = std::move(done);
  }
  loaded_.notify_all();
}

}  // namespace accel
