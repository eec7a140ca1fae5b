#include "parallel/failure/collective_log.h"

#include <exception>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace accel {

CollectiveLog::CollectiveLog(LoggedGroup group, std::shared_ptr<LogClock> clock)
    : group_(std::move(group)), clock_(std::move(clock)) {}

CollectiveLog::~CollectiveLog() = default;

void CollectiveLog::called(const CollectiveCall& call, int64_t sequence, int64_t step) {
  if (call.peers.empty()) ++collectives_;
  LoggedCall logged{.operation = call.operation,
                    .purpose = call.purpose,
                    .axes = {},
                    .bytes = call.bytes,
                    .sequence = sequence,
                    .step = step,
                    .order = ++clock_->calls,
                    .collectives = collectives_,
                    .peers = call.peers};
  const std::lock_guard lock(mutex_);
  beginning_ = call.on_device && !failed_;
  last_ = logged;
  if (beginning_) in_flight_.push_back({std::move(logged), clock_->milliseconds, {}});
}

void CollectiveLog::started(WorkPtr work) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(beginning_, false)) return;
  if (work) {
    in_flight_.back().work = std::move(work);
  } else {
    in_flight_.pop_back();
  }
}

void CollectiveLog::prune() {
  while (true) {
    WorkPtr work;
    {
      const std::lock_guard lock(mutex_);
      if (in_flight_.empty() || !in_flight_.front().work) return;
      work = in_flight_.front().work;
    }
    bool failed = false;
    try {
      if (!work->isCompleted()) return;
      failed = work->exception() != nullptr;
    } catch (const std::exception&) {
      failed = true;  // an error of the device
    }
    const std::lock_guard lock(mutex_);
    if (failed) {
      failed_ = true;
      beginning_ = false;
      in_flight_.clear();
      return;
    }
    in_flight_.pop_front();
  }
}

std::optional<CollectiveLog::Waiting> CollectiveLog::oldest() const {
  const std::lock_guard lock(mutex_);
  if (in_flight_.empty()) return std::nullopt;
  Waiting waiting{in_flight_.front().call, clock_->milliseconds - in_flight_.front().began};
  waiting.call.axes = group_.axes;
  return waiting;
}

std::optional<LoggedCall> CollectiveLog::last() const {
  const std::lock_guard lock(mutex_);
  std::optional<LoggedCall> last = last_;
  if (last) last->axes = group_.axes;
  return last;
}

}  // namespace accel
