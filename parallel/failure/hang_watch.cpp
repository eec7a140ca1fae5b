#include "parallel/failure/hang_watch.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "parallel/call_within.h"

namespace accel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestTick = std::chrono::milliseconds(1000);
/// Ticks per timeout, for timeouts below eight seconds.
constexpr int64_t kTicks = 8;
/// Ticks after which a blocked query counts as a hang.
constexpr int kMostBlocked = 4;

/// Runs a call that may block in a separate thread; null while it or the previous one is blocked.
template <class Call>
auto try_within(const std::shared_ptr<std::atomic<bool>>& busy, std::chrono::milliseconds limit,
                Call call) -> std::optional<decltype(call())> {
  if (busy->exchange(true)) return std::nullopt;
  struct Release {
    explicit Release(std::shared_ptr<std::atomic<bool>> busy) : busy_(std::move(busy)) {}
    ~Release() { *busy_ = false; }
    std::shared_ptr<std::atomic<bool>> busy_;
  };
  try {
    return call_within(limit, [busy, call = std::move(call)] {
      const Release release(busy);
      return call();
    });
  } catch (const std::system_error&) {
    *busy = false;  // the machine has no thread left
    return std::nullopt;
  }
}

}  // namespace

HangWatch::HangWatch(Options options)
    : options_(std::move(options)),
      report_(options_.report),
      tick_(std::clamp(
          std::chrono::milliseconds(static_cast<int64_t>(options_.timeout * 1e3)) / kTicks,
          std::chrono::milliseconds(1), kLongestTick)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

HangWatch::~HangWatch() = default;

std::shared_ptr<CollectiveLog> HangWatch::add_group(LoggedGroup group) {
  auto log = std::make_shared<CollectiveLog>(std::move(group), clock_);
  const std::lock_guard lock(mutex_);
  groups_.push_back(log);
  return log;
}

HangWatch::Logs HangWatch::logs() {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& group) { return group.expired(); });
  Logs logs;
  for (const auto& group : groups_) {
    if (auto log = group.lock()) logs.push_back(std::move(log));
  }
  return logs;
}

/// False when the watch ends.
bool HangWatch::sleep(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  stopped_.wait_for(lock, stop, tick_, [] { return false; });
  return !stop.stop_requested();
}

/// A query of the device may block while another thread synchronizes with it. Returns false then.
bool HangWatch::prune() {
  const auto prune_all = [logs = logs()] {
    for (const auto& log : logs) log->prune();
    return true;
  };
  return try_within(pruning_, tick_ / 2, prune_all).has_value();
}

/// Whether another rank has reported a hang.
bool HangWatch::is_requested() {
  if (store_lost_) return false;
  try {
    return try_within(requesting_, tick_ / 2, [report = report_] { return report.is_requested(); })
        .value_or(false);
  } catch (const std::exception&) {
    store_lost_ = true;  // at the end of a run as after a failure, which others report
    return false;
  }
}

std::optional<HungCall> HangWatch::overdue() {
  std::optional<HungCall> longest;
  int64_t waited = static_cast<int64_t>(options_.timeout * 1e3);
  for (const auto& log : logs()) {
    const auto waiting = log->oldest();
    if (!waiting || waiting->milliseconds < waited) continue;
    waited = waiting->milliseconds;
    longest = HungCall{waiting->call, log->group(), waited / 1000};
  }
  return longest;
}

RankCalls HangWatch::calls() {
  RankCalls calls;
  for (const auto& log : logs()) {
    if (auto last = log->last()) calls[log->group().name] = std::move(*last);
  }
  return calls;
}

void HangWatch::run(const std::stop_token& stop) {
  auto before = Clock::now();
  int blocked = 0;
  while (sleep(stop)) {
    // The time in which the process was stopped is no time that it has waited.
    const auto now = Clock::now();
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - before);
    clock_->milliseconds += std::min(passed, 3 * tick_).count();
    before = now;
    blocked = prune() ? 0 : blocked + 1;
    const bool is_known = blocked == 0 || blocked >= kMostBlocked;
    if (const auto hung = is_known ? overdue() : std::nullopt) {
      options_.on_hang(report_.of_waiting(*hung, calls()));
      return;
    }
    if (is_requested()) {
      options_.on_hang(report_.of_other(calls()));
      return;
    }
  }
}

}  // namespace accel
