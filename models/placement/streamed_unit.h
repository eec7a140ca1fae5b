// The weights on the disk of a block, or of the head, which are streamed together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/api/parameter.h"
#include "models/placement/mapped_range.h"

namespace accel {

class Block;

struct StreamedUnit {
  Block* block = nullptr;           ///< null: after the last block
  std::vector<MappedRange> ranges;  ///< of the weights
  std::vector<at::Tensor> weights;  ///< contiguous, in mapped files
  /// Contiguous and deferred: those that files have in another type or layout.
  std::vector<at::Tensor> converted = {};

  /// Bytes in memory, in blocks of the file.
  int64_t bytes() const;
};

/// At most the bytes that folders have between these weights and that are read with them: tables
/// and states of quantized weights.
int64_t table_bytes_between(const std::vector<Parameter>& weights);

/// Lets a tensor that owns no memory have its elements at `memory`.
void set_memory(const at::Tensor& tensor, void* memory);

/// A unit's weights as tensors whose memory moves between the mapped file and a region of memory
/// with the same bytes; converted ones have no memory but the region. They keep their identity, and
/// so do tensors that autograd has saved.
class MovableUnit {
 public:
  /// Bytes of a file, or a converted weight, and where they go in the region.
  struct Piece {
    const WeightFile* file = nullptr;       ///< null: of a converted weight
    const at::Tensor* converted = nullptr;  ///< deferred
    int64_t offset = 0;                     ///< in the file, a multiple of WeightFile::kBlock
    int64_t at = 0;                         ///< in the region
    int64_t bytes = 0;                      ///< likewise a multiple
    int64_t needed = 0;                     ///< without those after the last weight

    /// Fills `region`. Thread-safe. Throws IoError.
    void read_to(std::byte* region) const;
  };

  explicit MovableUnit(StreamedUnit unit);
  /// The weights are in the mapped file again.
  ~MovableUnit();
  MovableUnit(const MovableUnit&) = delete;
  MovableUnit& operator=(const MovableUnit&) = delete;

  Block* block() const { return unit_.block; }
  int64_t bytes() const { return bytes_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// The deferred tensors from which converted weights are read.
  const std::vector<at::Tensor>& sources() const { return sources_; }
  /// The weights are in the region.
  void move_to(std::byte* region) const;
  /// The weights are in the mapped file, converted ones nowhere.
  void move_back() const;
  /// Evicts the pages of the mapped file.
  void drop() const;

 private:
  struct Weight {
    at::Tensor tensor;
    at::Tensor mapped;  ///< has the original storage
    int64_t at;         ///< in the region
    void* idle;         ///< the memory outside of the region; null: none
  };

  /// Of the mapped file; `begin`: where the range goes in the region.
  void add_range(const MappedRange& range, int64_t begin);
  /// Returns where the next one goes.
  int64_t add_converted(const at::Tensor& tensor, int64_t at);

  StreamedUnit unit_;
  int64_t bytes_;
  std::vector<at::Tensor> sources_;
  std::vector<Piece> pieces_;
  std::vector<Weight> weights_;
};

}  // namespace accel
