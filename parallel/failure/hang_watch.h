// HangWatch: finds collectives that hang on a device.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "parallel/failure/collective_log.h"
#include "parallel/failure/hang_report.h"

namespace accel {

/// Watches the groups of a rank in a thread. The host does not wait in a collective of a device,
/// but later in a synchronization that never returns: this thread reports instead of it.
class HangWatch {
 public:
  struct Options {
    double timeout = 600;  ///< of a collective, in seconds
    /// Called once, in the watch's thread; must end the process, or the run hangs on.
    std::function<void(const Error&)> on_hang;
    HangReport::Options report;
  };

  explicit HangWatch(Options options);
  /// Waits for the thread.
  ~HangWatch();

  /// The log of a group, which is watched as long as the caller keeps it.
  std::shared_ptr<CollectiveLog> add_group(LoggedGroup group);

 private:
  using Logs = std::vector<std::shared_ptr<CollectiveLog>>;

  void run(const std::stop_token& stop);
  bool sleep(const std::stop_token& stop);
  Logs logs();
  bool prune();
  bool is_requested();
  std::optional<HungCall> overdue();
  RankCalls calls();

  Options options_;
  HangReport report_;
  std::chrono::milliseconds tick_;
  std::shared_ptr<LogClock> clock_ = std::make_shared<LogClock>();
  /// Whether a call of an earlier tick is still blocked.
  std::shared_ptr<std::atomic<bool>> pruning_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<bool>> requesting_ = std::make_shared<std::atomic<bool>>(false);
  bool store_lost_ = false;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::vector<std::weak_ptr<CollectiveLog>> groups_;
  std::jthread thread_;  ///< last: it uses the others
};

}  // namespace accel
