// The passes and messages of one rank of a pipeline.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/api/auxiliary_loss.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/split_backward.h"
#include "parallel/stage_blocks.h"
#include "parallel/stage_messages.h"

namespace accel {

/// Runs the actions of one rank for the micro-batches of a step. Its arguments outlive it.
class StageRun {
 public:
  /// `loss`: the model's loss of all stages; null: none, as without gradients.
  StageRun(StageBlocks& blocks, StageMessages& messages, const PipelineSchedule& schedule,
           int64_t rank, AuxiliaryLoss* loss = nullptr)
      : blocks_(blocks),
        messages_(messages),
        layout_(schedule.layout),
        actions_(schedule.ranks[static_cast<size_t>(rank)]),
        loss_(loss),
        loss_sizes_(loss ? loss->stage_loss_sizes() : StageLossSizes()) {}

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
    StageTensors received;  ///< the output of the stage before
    at::Tensor input;       ///< of the first block
    at::Tensor output;      ///< the activation, or the scaled loss
    StageTensors gradient;  ///< of the output
    StageTensors input_gradient;
    std::shared_ptr<StageLoss> loss;  ///< null without a loss of all stages
    SplitBackward split;
  };

  InFlight& at(const PipelineAction& action) {
    return in_flight_[{action.stage, action.micro_batch}];
  }
  /// Gives the gradient of a stage's input to the stage before, on the same rank.
  void hand_back(const PipelineAction& action, at::Tensor gradient);
  /// Gives the gradient of the loss of all stages to the stage's layers.
  void begin_backward(const InFlight& pass) const;
  /// The forward pass of the stage, with its part of the loss of all stages.
  StagePass run(const PipelineAction& action, const std::function<void()>& compute);

  StageBlocks& blocks_;
  StageMessages& messages_;
  const PipelineLayout& layout_;
  const std::vector<PipelineAction>& actions_;
  AuxiliaryLoss* loss_;
  StageLossSizes loss_sizes_;
  std::map<Key, InFlight> in_flight_;
};

}  // namespace accel
