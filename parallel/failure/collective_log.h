// CollectiveLog: the collectives that this rank has called in one group, for reports of hangs.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Work;
}

namespace accel {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// A call as it is made: of a collective, or of messages to other ranks.
struct CollectiveCall {
  const char* operation;            ///< "all-reduce", "send to"
  const char* purpose;              ///< outlives the call
  int64_t bytes = 0;                ///< of this rank's tensor
  bool on_device = false;           ///< runs on a device; false: in memory of the host
  std::vector<int64_t> peers = {};  ///< of messages, as ranks of the world; empty: a collective
};

/// A call as the log holds it and as ranks exchange it.
struct LoggedCall {
  std::string operation, purpose;
  std::string axes;  ///< of the group in the mesh: "tp"; may be empty
  int64_t bytes = 0;
  int64_t sequence = 0;  ///< number of the call in its group
  int64_t step = 0;      ///< the optimizer step; 0: none
  int64_t order = 0;     ///< among the calls of the rank in all groups
  /// Calls of its group up to this one without messages: the same on all ranks.
  int64_t collectives = 0;
  std::vector<int64_t> peers = {};  ///< see CollectiveCall
};

/// What the logs of a rank share.
struct LogClock {
  std::atomic<int64_t> milliseconds = 0;  ///< since the start, without times of a stopped process
  std::atomic<int64_t> calls = 0;         ///< in all groups
};

/// A group as reports name it.
struct LoggedGroup {
  std::string name;              ///< the same on its ranks, different between groups
  std::string axes;              ///< see LoggedCall
  std::vector<int64_t> members;  ///< ranks of the world
};

/// Threads: one calls collectives, another one prunes and reads the log. A call costs two short
/// critical sections.
class CollectiveLog {
 public:
  CollectiveLog(LoggedGroup group, std::shared_ptr<LogClock> clock);
  ~CollectiveLog();

  const LoggedGroup& group() const { return group_; }

  /// The call begins.
  void called(const CollectiveCall& call, int64_t sequence, int64_t step);
  /// The call has returned `work`, which holds no tensors: the log keeps it until it completes.
  /// Null: there is nothing to wait for on a device.
  void started(WorkPtr work);

  /// Forgets the calls at the front whose work has completed. May block as Work::isCompleted()
  /// does. A failed work ends the watch of the group: c10d reports it.
  void prune();

  struct Waiting {
    LoggedCall call;
    int64_t milliseconds;  ///< since it began
  };
  /// The oldest call on a device that is not known to have completed.
  std::optional<Waiting> oldest() const;
  std::optional<LoggedCall> last() const;

 private:
  struct InFlight {
    LoggedCall call;
    int64_t began;  ///< LogClock::milliseconds
    WorkPtr work;   ///< null while the call begins
  };

  LoggedGroup group_;
  std::shared_ptr<LogClock> clock_;
  mutable std::mutex mutex_;
  std::optional<LoggedCall> last_;
  int64_t collectives_ = 0;
  std::deque<InFlight> in_flight_;
  bool beginning_ = false;  ///< the last of `in_flight_` has no work yet
  bool failed_ = false;
};

}  // namespace accel
