// Streaming of weights from the disk: the next blocks are read while one computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/api/block.h"
#include "models/placement/block_ring.h"
#include "models/placement/streamed_unit.h"

namespace accel {

struct StreamFigures {
  int64_t passes = 0;      ///< forward passes that were begun
  int64_t bytes = 0;       ///< that passes used, read from the disk
  double seconds = 0;      ///< from the first pass to the last block or head
  double waited = 0;       ///< seconds that passes waited for bytes
  int64_t peak_bytes = 0;  ///< of streamed weights in memory
};

/// Reads the units in the order of passes on kReaders threads, and the first ones of the next pass
/// behind the last. At most `capacity` bytes of them are in memory, and at least the largest unit.
/// `rest`: other weights on the disk, such as a table of embeddings, which are read where they are
/// accessed and dropped at the first block. Errors of reading are thrown where the bytes are
/// needed.
class WeightStream {
 public:
  /// Who uses the units: their blocks, which outlive it and whose hooks it sets, or the caller, by
  /// acquire() and release().
  enum class User { kBlocks, kCaller };

  WeightStream(std::vector<StreamedUnit> units, std::vector<MappedRange> rest, int64_t capacity,
               User user = User::kBlocks);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  /// Waits for the bytes of the unit, the next one of a pass, and gives them to the weights.
  void acquire(size_t unit);
  /// Frees the unit that was acquired first.
  void release(size_t unit);
  /// Whether acquire() would not wait.
  bool is_ready(size_t unit) const;
  /// That the bytes of units are in.
  std::span<std::byte> memory() const { return ring_.memory(); }

  StreamFigures figures() const;

 private:
  class Hooks;
  /// A unit that is in memory or being read.
  struct Loading {
    size_t unit = 0;
    std::byte* region = nullptr;
    size_t next_piece = 0;
    size_t unread = 0;  ///< pieces
  };

  void after(size_t unit);
  void use(size_t unit, std::unique_lock<std::mutex>& lock);
  void free(size_t unit);
  void restart_at(size_t unit, std::unique_lock<std::mutex>& lock);
  void read_pieces();
  /// The unit with a piece to read, perhaps a new one; null: there is no memory for one.
  Loading* next_unit();
  void read_piece(Loading& from, std::unique_lock<std::mutex>& lock);

  std::vector<std::unique_ptr<MovableUnit>> units_;
  std::vector<MappedRange> rest_;
  std::vector<std::unique_ptr<Hooks>> hooks_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  BlockRing ring_;
  std::deque<Loading> loading_;  ///< from the unit that a pass uses next on, in the order of passes
  size_t to_load_ = 0;           ///< unit behind them
  int reading_ = 0;              ///< threads that read a piece
  bool restarting_ = false;
  bool head_in_use_ = false;
  std::exception_ptr failure_;
  StreamFigures figures_;
  double began_ = -1;
  std::vector<std::jthread> readers_;
};

}  // namespace accel
