// The passes and messages of one rank of a pipeline.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/pipeline/schedule.h"
#include "parallel/split_backward.h"
#include "parallel/stage_blocks.h"
#include "parallel/stage_messages.h"

namespace accel {

/// Runs the actions of one rank for the micro-batches of a step. Its arguments outlive it.
class StageRun {
 public:
  StageRun(StageBlocks& blocks, StageMessages& messages, const PipelineSchedule& schedule,
           int64_t rank)
      : blocks_(blocks),
        messages_(messages),
        layout_(schedule.layout),
        actions_(schedule.ranks[static_cast<size_t>(rank)]) {}

  const std::vector<PipelineAction>& actions() const { return actions_; }

  /// Sends or receives.
  void transfer(const PipelineAction& action, const std::string& shapes);
  /// Starts the next receive, while passes compute.
  void look_ahead(size_t from, const std::function<std::string(int64_t)>& shapes_of);
  void forward(const PipelineAction& action, const std::function<at::Tensor()>& compute);
  void backward(const PipelineAction& action);
  void backward_input(const PipelineAction& action);
  void backward_weight(const PipelineAction& action);

 private:
  using Key = std::pair<int64_t, int64_t>;  // stage, micro-batch

  /// A micro-batch in a stage.
  struct InFlight {
    at::Tensor received;  ///< the output of the stage before
    at::Tensor input;     ///< of the first block
    at::Tensor output;    ///< the activation, or the scaled loss
    at::Tensor gradient;  ///< of the output
    at::Tensor input_gradient;
    SplitBackward split;
  };

  InFlight& at(const PipelineAction& action) {
    return in_flight_[{action.stage, action.micro_batch}];
  }
  /// Gives the gradient of a stage's input to the stage before, on the same rank.
  void hand_back(const PipelineAction& action, at::Tensor gradient);

  StageBlocks& blocks_;
  StageMessages& messages_;
  const PipelineLayout& layout_;
  const std::vector<PipelineAction>& actions_;
  std::map<Key, InFlight> in_flight_;
};

}  // namespace accel
