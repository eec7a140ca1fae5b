// Asynchronous trackers: one queue and one thread for all trackers of a run.
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

#include "core/api/tracker.h"
#include "track/remote_tracker.h"
#include "track/train_job_status.h"

namespace accel {

/// Trackers by their names in recipes, messages and checkpoints.
using NamedTrackers = std::vector<std::pair<std::string, std::unique_ptr<Tracker>>>;

/// Tracker::ids() by tracker name.
using TrackerIds = std::vector<std::pair<std::string, std::map<std::string, std::string>>>;

/// A failing tracker causes one warning and never ends the run. Files are complete: the caller
/// waits while the queue is full, when the disk is slower than training. Only finish() waits for
/// servers. Warnings reach `report` on the caller's thread.
class TrackerThread {
 public:
  struct Limits {
    size_t queued_bytes = size_t{64} << 20;
    RetryTimes retry = {};
    std::chrono::milliseconds finish_timeout{10000};  ///< of the servers, in finish()
  };
  using Report = Sender::Report;

  TrackerThread(NamedTrackers trackers, Report report, MakeTransport make = &make_curl_transport)
      : TrackerThread(std::move(trackers), std::move(report), std::move(make), Limits{}) {}
  TrackerThread(NamedTrackers trackers, Report report, MakeTransport make, Limits limits);
  /// Writes the queue without waiting for servers.
  ~TrackerThread();

  void config(ConfigValues values);
  void log(int64_t step, std::span<const Measurement> values);
  void text(int64_t step, const std::string& tag, const std::string& text);
  void histogram(int64_t step, const std::string& tag, std::span<const float> values);
  void image(int64_t step, const std::string& tag, Picture picture);
  /// Whether a tracker is a ProgressTracker.
  bool reports_progress() const { return reports_progress_; }
  void progress(const RunProgress& progress);

  /// Blocks until all events are on the disk: a checkpoint must not be newer than the trackers'
  /// files.
  void drain();
  /// Ends all trackers; waits at most Limits::finish_timeout for servers.
  void finish(RunStatus status);
  /// Ends without another call of a tracker, whose files belong to another process now.
  void abandon();
  /// Tracker::ids() at the last drain(), in the order of the trackers.
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
  TrackerIds collect_ids() const;
  void process_queue(std::unique_lock<std::mutex>& lock);
  void send(std::unique_lock<std::mutex>& lock);
  void queue_warning(const std::string& message);
  void report_warnings();
  void join(std::chrono::milliseconds timeout);

  Report report_;
  Limits limits_;
  std::vector<Named> trackers_;  ///< owned by the thread while it runs
  Sender sender_;

  mutable std::mutex mutex_;  ///< guards the members below, up to ids_
  std::condition_variable posted_;
  std::condition_variable done_;
  std::deque<std::pair<Event, size_t>> queue_;
  size_t queued_bytes_ = 0;
  bool working_ = false;  ///< processing an event taken from the queue
  bool closing_ = false;
  std::chrono::steady_clock::time_point deadline_;  ///< of sending, when closing
  std::vector<std::string> warnings_;
  TrackerIds ids_;

  bool reports_progress_ = false;
  bool warned_slow_ = false;
  std::thread thread_;
};

}  // namespace accel
