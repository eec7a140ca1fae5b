// Streaming of frozen blocks for training: forward passes need them in order, backward passes in
// reverse order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/api/block.h"
#include "models/placement/block_ring.h"
#include "models/placement/streamed_unit.h"

namespace accel {

struct FrozenFigures {
  int64_t bytes = 0;  ///< read from the disk
  int64_t uses = 0;   ///< of blocks by passes, the repeated forward of a backward pass included
  int64_t hits = 0;   ///< those that found their block in memory
};

/// Keeps as many blocks in memory as `capacity` has room for, at least two, and reads those ahead
/// that passes use next: after a block of a forward pass the next one, at its end the last ones
/// again, and after a backward pass the first ones. Reading begins with the first pass. A block
/// that is used last is evicted first. Sets the hooks of the blocks, which outlive it. Errors of
/// reading are thrown by the block that needs the bytes. Weights are in the mapped file while their
/// block is not in use.
class FrozenStream {
 public:
  /// `units`: blocks in the order of a forward pass.
  FrozenStream(std::vector<StreamedUnit> units, int64_t capacity);
  ~FrozenStream();
  FrozenStream(const FrozenStream&) = delete;
  FrozenStream& operator=(const FrozenStream&) = delete;

  /// Lets the repeated forward passes of checkpointed blocks use the stream: replaces their
  /// BlockInputs. `inputs`: stores their inputs; null: they stay in memory.
  void follow_recomputation(const std::shared_ptr<BlockInputs>& inputs);

  /// Blocks that memory has room for.
  int64_t slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t slot_bytes() const { return slot_bytes_; }
  FrozenFigures figures() const;
  /// The deferred tensors from which weights are read that files have in another type or layout.
  std::vector<at::Tensor> sources() const;

 private:
  class Hooks;
  class Inputs;
  enum class Pass { kForward, kBackward, kEvaluation };
  /// Memory of a block.
  struct Slot {
    std::optional<size_t> unit;
    size_t next_piece = 0;
    size_t unread = 0;  ///< pieces
  };

  /// Waits for the bytes of the unit, and gives them to its weights; the unit before gives its own
  /// back.
  void use(size_t unit, Pass pass);
  /// How many other uses passes make before they use the unit again.
  size_t distance_to(size_t unit) const;
  Slot* slot_of(size_t unit);
  std::byte* memory_of(const Slot& slot) const;
  /// The slot with a piece to read, perhaps of a new unit; null: others are used earlier.
  Slot* next_slot();
  Slot* slot_for(size_t unit);
  void start_readers();
  void read_pieces();

  std::vector<std::unique_ptr<MovableUnit>> units_;
  std::vector<std::unique_ptr<Hooks>> hooks_;
  int64_t slot_bytes_;
  BlockRing memory_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::vector<Slot> slots_;
  std::optional<size_t> current_;  ///< the unit whose weights are in its slot
  size_t position_ = 0;            ///< the unit that a pass used last
  Pass pass_ = Pass::kBackward;    ///< before the first pass, as after a backward pass
  std::exception_ptr failure_;
  FrozenFigures figures_;
  std::vector<std::jthread> readers_;
};

}  // namespace accel
