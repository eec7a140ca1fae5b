// Pipeline parallelism: ranks run consecutive stages of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/api/auxiliary_loss.h"
#include "core/api/block.h"
#include "parallel/mesh.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/strategy.h"

namespace accel {

/// A parameter of the whole model and the stages that use it.
struct StageParameter {
  Parameter parameter;  ///< `local` is the model's tensor, deferred or with memory
  int64_t stage;
  /// A later stage that reads it as well, such as a head tied to the embedding; null: none. The
  /// first one has its optimizer state.
  std::optional<int64_t> also_read_by = {};
  /// Whether the strategy of its stage divides its rows over Mesh::shard.
  bool is_sharded = false;
};

/// The strategy over the ranks that sum their gradients, Mesh::gradients, for the parameters of
/// this rank's stages, trained and frozen ones. Those that it does not shard have memory.
using StageStrategy = std::function<std::unique_ptr<Strategy>(const std::vector<Parameter>& own)>;

struct PipelineContext {
  std::vector<Block*> blocks = {};              ///< the model's chain, which outlives the strategy
  std::vector<int64_t> blocks_per_stage = {};   ///< of each stage, at least one
  std::vector<StageParameter> parameters = {};  ///< trained and frozen ones
  Mesh mesh = {};
  at::Device device = at::kCPU;
  AuxiliaryLoss* loss = nullptr;  ///< the model's own loss, which outlives the strategy; null: none
  StageStrategy strategy_of_stages = {};  ///< null: data parallel training by PipelineOptions::ddp
};

struct PipelineOptions {
  PipelineKind kind = PipelineKind::k1F1B;
  int64_t stages_per_rank = 1;
  /// With step, micro-batch and stage, seeds the random numbers of a pass: dropout is the same for
  /// every schedule of these stages.
  uint64_t seed = 0;
  /// Gradient reduction of a stage over Mesh::gradients; unused with StageStrategy.
  DdpOptions ddp = {};
};

/// Gives memory to the parameters of this rank's stages and takes that of the others, whose share
/// is empty here: Placement::owner. Forward passes end after a stage's last block, activations and
/// their gradients travel between ranks in the order of the schedule, and each stage's gradients
/// are summed over micro-batches in their order, with the bits of one process that accumulates
/// them; a weight of two stages is summed in another order. Throws std::logic_error for a schedule
/// with a fault.
std::unique_ptr<Strategy> make_pipeline(const PipelineContext& context,
                                        const PipelineOptions& options);

}  // namespace accel
