// Fully sharded data parallel training: parameters, gradients and optimizer state divided by rows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/block.h"
#include "parallel/mesh.h"
#include "parallel/shard_unit.h"
#include "parallel/strategy.h"

namespace accel {

/// What a ZeRO stage divides over the ranks of Mesh::shard.
enum class ShardStage {
  kOptimizer = 1,   ///< optimizer state; gradients are whole until the last micro-batch
  kGradients = 2,   ///< and gradients, reduced after each block's backward pass
  kParameters = 3,  ///< and parameters, gathered for each block's forward and backward pass
};

struct FsdpOptions {
  ShardStage stage = ShardStage::kParameters;
  /// Free a block's parameters after its forward pass and gather them again for backward.
  bool reshard_after_forward = true;
  /// In a pipeline, whose passes of several micro-batches alternate: before_pass() and after_pass()
  /// are around backward passes alone, and at stage 3 parameters stay gathered from their first
  /// forward pass until updated(). Then `reshard_after_forward` has no effect.
  bool in_pipeline = false;
  /// Reduce the gradients of each micro-batch instead of those of the last one: less memory, more
  /// communication.
  bool sync_each_batch = true;
  /// Autocast's type: passes under autocast gather FsdpContext::cast_weights in it, or in fp8, with
  /// the same results, since autocast and fp8 layers cast them too. Other passes, and null: in
  /// their own type.
  std::optional<at::ScalarType> param_dtype = {};
  /// The type of gradients in the reduction; null: that of the parameters.
  std::optional<at::ScalarType> reduce_dtype = {};
  /// Sum gradients by a tree that does not depend on the number of ranks, as make_canonical().
  /// Whole gradients are kept until the last micro-batch. Not with reduce_dtype.
  std::optional<CanonicalOptions> canonical = {};
  bool broadcast_buffers = true;
  int64_t bucket_bytes = 25 << 20;  ///< of the gradients of replicated parameters
};

/// The parameters of a block, trained and frozen ones, which are gathered together.
struct FsdpUnit {
  Block* block = nullptr;  ///< outlives the strategy
  std::vector<Parameter> parameters;
};

struct FsdpContext {
  std::vector<FsdpUnit> blocks = {};       ///< in the order of the model
  std::vector<Parameter> root = {};        ///< parameters of no block: unsharded during all passes
  std::vector<Parameter> replicated = {};  ///< whole on every rank
  std::vector<Parameter> buffers = {};
  CastWeights cast_weights = {};  ///< of blocks' linear layers and convolutions
  ShardHome home = {};            ///< of rows and gradients
  Mesh mesh = {};                 ///< gradients are summed over `data`
};

/// ZeRO stages 1 to 3 (Rajbhandari et al., SC 2020), per parameter and by rows as PyTorch's FSDP2.
/// With two ranks and one reduction per step, losses, norms and weights have the bits of DDP. The
/// order in which blocks run is recorded, and the next block's parameters are gathered while one
/// computes. Every rank runs the same blocks in the same order.
std::unique_ptr<Strategy> make_fsdp(const FsdpContext& context, const FsdpOptions& options);

}  // namespace accel
