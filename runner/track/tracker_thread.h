// All trackers of a run behind one queue and one thread, so that no step waits for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/tracker.h"
#include "runner/track/sender.h"

namespace accel {

/// Trackers and the names that recipes, messages and checkpoints call them by.
using NamedTrackers = std::vector<std::pair<std::string, std::unique_ptr<Tracker>>>;

/// The names of trackers and what each calls the run.
using TrackerIds = std::vector<std::pair<std::string, std::map<std::string, std::string>>>;

/// A tracker that fails is warned of once and never ends the run. Files get everything: when the
/// queue is full, because the disk is slower than training, the caller waits. A network is never
/// waited for before finish(). Warnings reach `report` in the caller's thread.
class TrackerThread {
 public:
  struct Limits {
    size_t queued_bytes = size_t{64} << 20;
    RetryTimes retry = {};
    std::chrono::milliseconds goodbye{10000};  ///< what finish() gives the servers
  };
  using Report = Sender::Report;

  TrackerThread(NamedTrackers trackers, Report report, MakeTransport make = &make_curl_transport)
      : TrackerThread(std::move(trackers), std::move(report), std::move(make), Limits{}) {}
  TrackerThread(NamedTrackers trackers, Report report, MakeTransport make, Limits limits);
  /// Writes what is queued; waits for no server.
  ~TrackerThread();

  void config(ConfigValues values);
  void log(int64_t step, std::span<const Measurement> values);
  void text(int64_t step, const std::string& tag, const std::string& text);
  void histogram(int64_t step, const std::string& tag, std::span<const float> values);
  void image(int64_t step, const std::string& tag, Picture picture);

  /// Returns when everything so far is on the disk: a checkpoint must not know of steps that a
  /// tracker has lost.
  void settle();
  /// Ends all trackers; servers get Limits::goodbye to take the rest.
  void finish(RunStatus status);
  /// What Tracker::ids() said at the last settle(), in the order of the trackers.
  TrackerIds ids() const;

 private:
  struct Named {
    std::string name;
    std::unique_ptr<Tracker> tracker;
    size_t failures = 0;
  };
  using Event = std::function<void(Tracker&)>;

  void post(Event event, size_t bytes);
  void run();
  void apply(const Event& event);
  TrackerIds ask_ids() const;
  void work_off(std::unique_lock<std::mutex>& lock);
  void send(std::unique_lock<std::mutex>& lock);
  void warn_later(const std::string& what);
  void tell_warnings();
  void join(std::chrono::milliseconds goodbye);

  Report report_;
  Limits limits_;
  std::vector<Named> trackers_;  ///< the thread's own while it runs
  Sender sender_;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable posted_;
  std::condition_variable done_;
  std::deque<std::pair<Event, size_t>> queue_;
  size_t queued_bytes_ = 0;
  bool working_ = false;  ///< on an event that has left the queue
  bool closing_ = false;
  std::chrono::steady_clock::time_point deadline_;  ///< of sending, once closing
  std::vector<std::string> warnings_;
  TrackerIds ids_;

  bool told_slow_ = false;
  std::thread thread_;
};

}  // namespace accel
