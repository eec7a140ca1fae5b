// Threads that load parts of objects in the order of their announcement, ahead of their reads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/mapped_file.h"
#include "data/store/object_info.h"

namespace accel {

struct LoaderLimits {
  int64_t threads = 1;
  int64_t bytes = 0;  ///< of parts that are loaded and not yet taken; one part may exceed it
};

/// Thread-safe.
class PartLoader {
 public:
  /// The bytes of the part, or no bytes if they are elsewhere and take room until take(); none:
  /// the part takes no room.
  using Load =
      std::function<std::optional<SharedBytes>(const ObjectPart& part, const std::stop_token&)>;

  PartLoader(const LoaderLimits& limits, Load load) : load_(std::move(load)), limits_(limits) {}
  ~PartLoader();

  void set_limits(const LoaderLimits& limits);
  /// Parts that will be read, in this order. Those announced already keep their place.
  void announce(const std::vector<ObjectPart>& parts);
  /// Forgets the parts announced.
  void forget();
  /// Ends the announcement of a part that is about to be read; waits while it loads, at most for
  /// `patience`. Returns what was loaded, none if nothing was; throws the error of the load.
  std::optional<SharedBytes> take(const ObjectPart& part, std::chrono::milliseconds patience =
                                                              std::chrono::milliseconds::max());

 private:
  enum class State { kQueued, kLoading, kForgotten, kReady };
  struct Announced {
    State state = State::kQueued;
    SharedBytes bytes = {};
    std::exception_ptr error = {};
  };

  bool may_load() const;
  void wake();
  void work(const std::stop_token& stop);
  void load(const ObjectPart& part, const std::stop_token& stop);

  const Load load_;
  std::mutex mutex_;  // guards all members below
  LoaderLimits limits_;
  std::deque<ObjectPart> queue_;
  std::unordered_map<ObjectPart, Announced, ObjectPartHash> announced_;
  int64_t loaded_bytes_ = 0;  ///< of parts that are loading or ready
  std::condition_variable_any may_load_;
  std::condition_variable loaded_;
  std::vector<std::jthread> threads_;  // last: they use the other members
};

}  // namespace accel
