// Streaming of weights from the disk: the next blocks are read while one computes, and dropped
// after.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/api/block.h"
#include "models/placement/mapped_range.h"

namespace accel {

/// The weights on the disk of a block, or of the head.
struct StreamedUnit {
  Block* block = nullptr;  ///< null: after the last block
  std::vector<MappedRange> ranges;

  int64_t bytes() const;
};

struct StreamFigures {
  int64_t passes = 0;      ///< forward passes that were begun
  int64_t bytes = 0;       ///< that passes used, read from the disk
  double seconds = 0;      ///< from the first pass to the last block or head
  double waited = 0;       ///< seconds that passes waited for bytes
  int64_t peak_bytes = 0;  ///< of streamed weights in memory
};

/// Reads the units in the order of passes on its own thread, and the first ones of the next pass
/// behind the last. At most `capacity` bytes of them are in memory, and at least the largest unit.
/// `rest`: other weights on the disk, such as a table of embeddings, which are read where they are
/// accessed and dropped at the first block. Sets the hooks of the blocks, which outlive it.
class WeightStream {
 public:
  WeightStream(std::vector<StreamedUnit> units, std::vector<MappedRange> rest, int64_t capacity);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  StreamFigures figures() const;

 private:
  class Hooks;

  void before(size_t unit);
  void after(size_t unit);
  /// Waits for the bytes of the unit.
  void wait_for(size_t unit, std::unique_lock<std::mutex>& lock);
  void release(size_t unit, std::unique_lock<std::mutex>& lock);
  void restart_at(size_t unit, std::unique_lock<std::mutex>& lock);
  void read_units();
  void read_unit(size_t unit, std::unique_lock<std::mutex>& lock);
  double now() const;

  std::vector<StreamedUnit> units_;
  std::vector<MappedRange> rest_;
  int64_t capacity_;
  std::vector<std::unique_ptr<Hooks>> hooks_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  bool is_reading_ = false;  ///< outside of the lock
  bool restarting_ = false;
  uint64_t restarts_ = 0;
  size_t reading_ = 0;  ///< unit that is read next, or now
  size_t first_ = 0;    ///< unit that a pass uses next
  size_t ready_ = 0;    ///< units from `first_` on that are in memory
  bool head_in_use_ = false;
  int64_t in_memory_ = 0;
  StreamFigures figures_;
  double began_ = -1;
  std::thread reader_;
};

}  // namespace accel
