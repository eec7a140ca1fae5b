// The blocks of a model in pipeline stages: runs one stage of a forward pass at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "core/api/block.h"

namespace accel {

/// A forward pass through one stage.
struct StagePass {
  at::Tensor input;   ///< of the stage's first block; a leaf except on the first stage
  at::Tensor output;  ///< of its last block; undefined on the last stage
};

/// Sets the stages of the blocks of a BlockChain, and removes them again.
class StageBlocks {
 public:
  /// `blocks`: the whole chain, which outlives this object. `sizes`: the number of blocks of each
  /// stage.
  StageBlocks(const std::vector<Block*>& blocks, const std::vector<int64_t>& sizes);
  ~StageBlocks();
  StageBlocks(const StageBlocks&) = delete;
  StageBlocks& operator=(const StageBlocks&) = delete;

  int64_t stages() const { return stages_; }

  /// Runs the blocks of one stage in `pass`, a whole forward pass and loss, which ends after the
  /// stage's last block; on the last stage it returns. `received`: the output of the stage before.
  /// Throws Error when the pass runs the blocks twice or not at all.
  StagePass run(int64_t stage, const at::Tensor& received, const std::function<void()>& pass);

 private:
  class Position;

  std::vector<Block*> blocks_;
  int64_t stages_;
  std::deque<Position> positions_;
  int64_t current_ = -1;  ///< the stage of the pass; -1: none
  int64_t entered_ = 0;   ///< blocks of this stage that have run
  at::Tensor received_;
  StagePass pass_;
};

}  // namespace accel
