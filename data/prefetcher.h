// Worker threads that prepare batches ahead and hand them over in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "data/host_batch.h"

namespace accel {

/// Makes batch number `ticket`. Called from several threads at once.
using MakeBatch = std::function<HostBatch(int64_t ticket)>;

/// Which tickets are made and by how much machinery.
struct PrefetchPlan {
  int64_t workers = 1;  ///< threads
  int64_t ahead = 1;    ///< most batches made or in the making that were not taken yet
  int64_t first = 0;    ///< first ticket
  int64_t end = 0;      ///< one past the last
};

/// Owns its threads and joins them when destroyed. take() is for one thread.
class Prefetcher {
 public:
  Prefetcher(const PrefetchPlan& plan, MakeBatch make);
  ~Prefetcher();

  /// The batch of the next ticket, in order whoever made it. Throws what making it threw.
  HostBatch take();

 private:
  struct Slot {
    bool ready = false;
    HostBatch batch;
    std::exception_ptr error;
  };

  void work();
  Slot& slot(int64_t ticket) { return slots_[static_cast<size_t>(ticket) % slots_.size()]; }

  const MakeBatch make_;
  const int64_t end_;
  std::mutex mutex_;  // guards all below but threads_
  std::condition_variable room_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;
  int64_t claimed_;  // next ticket to be made
  int64_t taken_;    // next ticket to be taken
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace accel
