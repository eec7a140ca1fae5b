#include "track/tracker_thread.h"

#include <algorithm>
#include <exception>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kEventBytes = 128;  // overhead of an event

size_t bytes_of(std::span<const Measurement> values) {
  size_t bytes = 0;
  for (const auto& [name, value] : values) bytes += sizeof(Measurement) + name.size();
  return bytes;
}

}  // namespace

TrackerThread::TrackerThread(NamedTrackers trackers, Report report, MakeTransport make,
                             Limits limits)
    : report_(std::move(report)),
      limits_(limits),
      sender_(std::move(make), limits.retry,
              [this](const std::string& message) { queue_warning(message); }) {
  for (auto& [name, tracker] : trackers) {
    auto* remote = dynamic_cast<RemoteTracker*>(tracker.get());
    if (remote && remote->is_online()) sender_.add(name, *remote);
    reports_progress_ |= dynamic_cast<ProgressTracker*>(tracker.get()) != nullptr;
    trackers_.push_back({std::move(name), std::move(tracker)});
  }
  ids_ = collect_ids();
  if (!trackers_.empty()) thread_ = std::thread([this] { run(); });
}

TrackerThread::~TrackerThread() {
  join(std::chrono::milliseconds(0));
}

void TrackerThread::config(ConfigValues values) {
  post([values = std::move(values)](Tracker& tracker) { tracker.config(values); }, kEventBytes);
}

void TrackerThread::log(int64_t step, std::span<const Measurement> values) {
  post([step, copy = std::vector(values.begin(), values.end())](
           Tracker& tracker) { tracker.log(step, copy); },
       bytes_of(values));
}

void TrackerThread::text(int64_t step, const std::string& tag, const std::string& text) {
  post([step, tag, text](Tracker& tracker) { tracker.text(step, tag, text); }, text.size());
}

void TrackerThread::histogram(int64_t step, const std::string& tag, std::span<const float> values) {
  post([step, tag, copy = std::vector(values.begin(), values.end())](
           Tracker& tracker) { tracker.histogram(step, tag, copy); },
       values.size_bytes());
}

void TrackerThread::image(int64_t step, const std::string& tag, Picture picture) {
  const size_t bytes = picture.pixels.size();
  post([step, tag,
        picture = std::move(picture)](Tracker& tracker) { tracker.image(step, tag, picture); },
       bytes);
}

void TrackerThread::progress(const RunProgress& progress) {
  post(
      [progress](Tracker& tracker) {
        if (auto* to = dynamic_cast<ProgressTracker*>(&tracker)) to->progress(progress);
      },
      0);
}

void TrackerThread::drain() {
  post([](Tracker& tracker) { tracker.flush(Flush::kDurable); }, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return !thread_.joinable() || (queue_.empty() && !working_); });
  lock.unlock();
  report_warnings();
}

void TrackerThread::finish(RunStatus status) {
  post([status](Tracker& tracker) { tracker.finish(status); }, 0);
  join(limits_.finish_timeout);
  for (const Named& item : trackers_) {
    if (item.failures < 2) continue;
    report_(accel::text("the tracker '{}' failed {} times; metrics.jsonl has all metrics",
                        item.name, item.failures));
  }
}

void TrackerThread::abandon() {
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    queued_bytes_ = 0;
    done_.notify_all();
  }
  join(std::chrono::milliseconds(0));
  // Their destructors would write what they have buffered.
  for (Named& item : trackers_) [[maybe_unused]] const Tracker* leaked = item.tracker.release();
}

TrackerIds TrackerThread::ids() const {
  const std::lock_guard lock(mutex_);
  return ids_;
}

TrackerIds TrackerThread::collect_ids() const {
  TrackerIds all;
  for (const Named& item : trackers_) all.emplace_back(item.name, item.tracker->ids());
  return all;
}

void TrackerThread::post(Event event, size_t bytes) {
  if (!thread_.joinable()) return;
  bytes += kEventBytes;
  bool waited = false;
  {
    std::unique_lock lock(mutex_);
    const auto fits = [&] {
      return queue_.empty() || queued_bytes_ + bytes <= limits_.queued_bytes;
    };
    waited = !fits();
    done_.wait(lock, fits);
    queue_.emplace_back(std::move(event), bytes);
    queued_bytes_ += bytes;
    posted_.notify_one();
  }
  sender_.wake();
  report_warnings();
  if (waited && !std::exchange(warned_slow_, true)) {
    report_("training waits for the trackers: the disk is slower than logging");
  }
}

void TrackerThread::run() {
  std::unique_lock lock(mutex_);
  bool retried = false;
  for (;;) {
    process_queue(lock);
    if (closing_ && !retried) sender_.retry_now();
    retried = closing_;
    if (closing_ && !sender_.busy_before(deadline_)) break;
    if (sender_.busy()) {
      send(lock);
    } else {
      posted_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    }
  }
  lock.unlock();
  sender_.close();
}

void TrackerThread::process_queue(std::unique_lock<std::mutex>& lock) {
  bool unflushed = false;
  while (!queue_.empty() || unflushed) {
    working_ = true;
    Event event = [](Tracker& tracker) { tracker.flush(Flush::kReadable); };
    size_t bytes = 0;
    unflushed = !queue_.empty();
    if (unflushed) {
      std::tie(event, bytes) = std::move(queue_.front());
      queue_.pop_front();
    }
    lock.unlock();
    apply(event);
    event = nullptr;  // free the data before its bytes are uncounted
    TrackerIds ids = collect_ids();
    lock.lock();
    ids_ = std::move(ids);
    queued_bytes_ -= bytes;
    working_ = false;
    done_.notify_all();
  }
}

void TrackerThread::send(std::unique_lock<std::mutex>& lock) {
  using std::chrono::milliseconds;
  milliseconds timeout{1000};
  if (closing_) {
    const auto left = deadline_ - std::chrono::steady_clock::now();
    timeout = std::min(timeout, std::chrono::ceil<milliseconds>(left));
  }
  lock.unlock();
  sender_.poll(timeout);
  lock.lock();
}

void TrackerThread::apply(const Event& event) {
  for (Named& item : trackers_) {
    try {
      event(*item.tracker);
    } catch (const std::exception& error) {
      if (item.failures++ == 0) {
        queue_warning(accel::text("the tracker '{}' failed: {}; training continues", item.name,
                                  error.what()));
      }
    }
  }
}

void TrackerThread::queue_warning(const std::string& message) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(message);
}

void TrackerThread::report_warnings() {
  std::vector<std::string> warnings;
  {
    const std::lock_guard lock(mutex_);
    warnings.swap(warnings_);
  }
  for (const std::string& message : warnings) report_(message);
}

void TrackerThread::join(std::chrono::milliseconds timeout) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    deadline_ = std::chrono::steady_clock::now() + timeout;
    posted_.notify_one();
  }
  sender_.wake();
  thread_.join();
  report_warnings();
}

}  // namespace accel
