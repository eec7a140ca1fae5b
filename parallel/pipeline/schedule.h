// Pipeline schedules: the order in which each rank runs the passes of a step's micro-batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// GPipe (Huang et al., NeurIPS 2019); 1F1B and interleaved 1F1B (Narayanan et al., "Efficient
/// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021); ZB-H1 and ZB-V
/// (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, and "Pipeline Parallelism with
/// Controllable Memory", NeurIPS 2024).
enum class PipelineKind { kGpipe, k1F1B, kInterleaved1F1B, kZbH1, kZbV };

/// Whether it computes the gradients of inputs and of weights in two passes.
constexpr bool splits_backward(PipelineKind kind) {
  return kind == PipelineKind::kZbH1 || kind == PipelineKind::kZbV;
}

/// The stages of each rank. A stage is a consecutive part of the model; stage 0 has its inputs.
struct PipelineLayout {
  int64_t ranks = 1;
  int64_t stages_per_rank = 1;
  /// Of two stages per rank, the second ones run from the last rank to the first (ZB-V).
  bool is_folded = false;

  int64_t stages() const { return ranks * stages_per_rank; }
  int64_t rank_of(int64_t stage) const;
  /// The stage that is number `index` of the rank's.
  int64_t stage_of(int64_t rank, int64_t index) const;
  /// Whether the outputs of `stage` go to another rank; false for the last one.
  bool sends_after(int64_t stage) const;

  bool operator==(const PipelineLayout&) const = default;
};

PipelineLayout pipeline_layout(PipelineKind kind, int64_t ranks, int64_t stages_per_rank);

/// Passes of a stage, and its messages to and from the stages next to it on other ranks.
enum class ActionKind {
  kForward,
  kBackward,        ///< gradients of inputs and of weights
  kBackwardInput,   ///< gradients of inputs
  kBackwardWeight,  ///< gradients of weights
  kSendActivation,
  kReceiveActivation,
  kSendGradient,
  kReceiveGradient
};

struct PipelineAction {
  ActionKind kind;
  int64_t stage;  ///< of this rank
  int64_t micro_batch;

  bool operator==(const PipelineAction&) const = default;
};

constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::kSendActivation;
}
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}

/// "activation of stage 1, micro-batch 3", "forward of stage 0, micro-batch 2". The activation is
/// the stage's input, the gradient that of its output, on both ranks.
std::string to_string(const PipelineAction& action);

/// A message from one rank to another: the receiver's action.
struct PipelineMessage {
  int64_t from;
  int64_t to;
  PipelineAction received;

  bool operator==(const PipelineMessage&) const = default;
};

/// The message of a send or receive action.
PipelineMessage message_of(const PipelineLayout& layout, const PipelineAction& action);

/// Of one step. Sends do not block. The messages from one rank to another are received in the order
/// in which they are sent.
struct PipelineSchedule {
  PipelineLayout layout;
  int64_t micro_batches = 0;
  std::vector<std::vector<PipelineAction>> ranks;  ///< the actions of each rank, in order
};

/// Backward passes of a stage are in the order of micro-batches, so that its gradients are summed
/// as by gradient accumulation in one process. Any number of micro-batches; interleaved 1F1B has
/// the least bubble when it is a multiple of the ranks.
PipelineSchedule make_pipeline_schedule(PipelineKind kind, const PipelineLayout& layout,
                                        int64_t micro_batches);

/// Forward passes alone, for an evaluation.
PipelineSchedule forward_schedule(const PipelineLayout& layout, int64_t micro_batches);

/// The most micro-batches whose activations a rank holds at a time, counted for each of its stages:
/// from a forward pass to the end of its backward passes.
int64_t most_alive(PipelineKind kind, const PipelineLayout& layout, int64_t micro_batches,
                   int64_t rank);

}  // namespace accel
