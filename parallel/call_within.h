// Calls with a time limit.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace accel {

/// The result of `call`, or its exception; nullopt when it takes longer than `limit`. For exchanges
/// with c10d's store, which have no timeout and cannot be interrupted: a call that exceeds the
/// limit continues in a detached thread, and must own what it uses.
template <class Call>
auto call_within(std::chrono::milliseconds limit, Call call) {
  using Result = decltype(call());
  std::packaged_task<Result()> task(std::move(call));
  std::future<Result> result = task.get_future();
  std::thread(std::move(task)).detach();
  const bool ready = result.wait_for(limit) == std::future_status::ready;
  return ready ? std::optional<Result>(result.get()) : std::nullopt;
}

}  // namespace accel
