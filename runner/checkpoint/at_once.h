// Several pieces of work at a time.
#pragma once

#include <functional>
#include <future>
#include <vector>

namespace accel {

/// Does all of `work`, each piece on a thread of its own if `threads`, else one after the other.
/// Returns when all have ended; throws what the first of them in the list threw.
inline void do_at_once(bool threads, const std::vector<std::function<void()>>& work) {
  const auto how = threads ? std::launch::async : std::launch::deferred;
  std::vector<std::future<void>> all;
  for (const auto& piece : work) all.push_back(std::async(how, piece));
  for (std::future<void>& one : all) one.get();
}

}  // namespace accel
