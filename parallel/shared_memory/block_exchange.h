// Blocks of bytes that the ranks of one machine publish to one another in shared memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallel/shared_memory/block_allocator.h"
#include "parallel/shared_memory/shared_segment.h"

namespace accel {

/// A rank has ended or left its group.
struct LostPeer : std::runtime_error {
  explicit LostPeer(int64_t rank)
      : std::runtime_error("lost rank " + std::to_string(rank)), rank(rank) {}
  int64_t rank;  ///< in the group
};

/// Each rank has a segment with lanes: one whose blocks all ranks read, and one for messages to
/// each rank. Blocks of a lane are numbered from 0; numbers may be left out. A rank that waits
/// sleeps in the kernel (futex(2)). For one thread per rank.
class BlockExchange {
 public:
  static constexpr int64_t kToAll = 0;
  static constexpr int64_t lane_to(int64_t rank) { return 1 + rank; }
  /// Blocks of a lane that may be unread at a time; publish() waits for the oldest one.
  static constexpr uint64_t kSlots = 256;

  /// `timeout` of a wait for another rank. Throws std::system_error.
  BlockExchange(int64_t rank, int64_t world, std::chrono::milliseconds timeout);
  ~BlockExchange();
  BlockExchange(const BlockExchange&) = delete;
  BlockExchange& operator=(const BlockExchange&) = delete;

  int64_t rank() const { return rank_; }
  int64_t world() const { return static_cast<int64_t>(segments_.size()); }
  std::string name() const { return own().name(); }
  /// `names`: name() of each rank. Throws as SharedSegment does.
  void connect(const std::vector<std::string>& names);

  /// Memory for a block, to be filled and published before the next call.
  std::byte* allocate(size_t bytes);
  /// Publishes the block of the last allocate(). It is freed when `readers` ranks have released it.
  void publish(int64_t lane, uint64_t number, int64_t readers);

  /// Whether await() returns at once.
  bool has(int64_t from, int64_t lane, uint64_t number) const;
  /// The block. The address is valid until the next await() from that rank and, of own blocks,
  /// allocate(). Throws LostPeer, or std::runtime_error ("timed out ...").
  std::span<std::byte> await(int64_t from, int64_t lane, uint64_t number);
  void release(int64_t from, int64_t lane, uint64_t number);

  /// Bytes of this rank's segment, for tests.
  size_t segment_bytes() const { return own().bytes(); }

 private:
  struct Header;
  struct Slot;
  struct Published {
    Slot* slot;
    uint64_t offset;
  };

  SharedSegment& own() const { return *segments_[static_cast<size_t>(rank_)]; }
  Header& header(int64_t rank) const;
  Slot& slot(int64_t rank, int64_t lane, uint64_t number) const;
  /// Frees blocks that all readers have released.
  void reclaim();
  /// Shrinks a segment that has been much larger than needed for a while.
  void trim();
  /// Wakes those who wait for a change in the segment of `rank`.
  void wake(int64_t rank) const;
  /// Whether `waited_for` is lost; any rank, when it is this one, which waits for its readers.
  std::optional<int64_t> lost_rank(int64_t waited_for) const;
  /// Waits until `holds()`, which a change in the segment of `rank` makes true.
  template <class Condition>
  void wait_for(int64_t rank, Condition holds) const;

  int64_t rank_;
  std::chrono::milliseconds timeout_;
  int spins_;
  std::vector<std::unique_ptr<SharedSegment>> segments_;  ///< by rank
  BlockAllocator allocator_;
  std::deque<Published> published_;
  uint64_t drafted_ = 0;  ///< offset of the block to publish
  size_t drafted_bytes_ = 0;
  size_t peak_ = 0;          ///< bytes in use since the last trim()
  int64_t allocations_ = 0;  ///< since the last trim()
};

}  // namespace accel
