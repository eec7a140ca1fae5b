// How ranks share the work of an optimizer step.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/batch.h"
#include "runner/dist/communicator.h"
#include "runner/dist/power_sgd.h"

namespace accel {

/// The micro-batches of one optimizer step.
struct WindowParts {
  int64_t step = 0;                  ///< the optimizer step, from 1
  int64_t planned = 1;               ///< micro-batches of a whole window, over all ranks
  c10::SmallVector<int64_t, 4> own;  ///< which are this rank's: rank, rank + world, ...
  /// Called, if given, between the passes and the first exchange, which then waits for it: ranks
  /// may agree there to throw instead.
  std::function<void()> before_sums = {};
};

/// One forward and backward pass over the `i`-th of this rank's parts, whose loss is already a part
/// of the window's mean, so that gradients only have to be summed.
using Pass = std::function<void(size_t i)>;

/// Gradients are undefined when a window starts. All ranks call the same, in the same order.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Calls `pass` once for each of `parts.own`; then every parameter's gradient is the sum over all
  /// parts of all ranks, the same bits on each; undefined where no part has one.
  virtual void run(const WindowParts& parts, const Pass& pass) = 0;
  /// Gives all ranks the buffers of rank 0: before a window and before an evaluation.
  virtual void share_buffers() {}

  /// Whether gradients, and so weights, are a rank's own: run() sums nothing over ranks then.
  virtual bool is_local() const { return false; }
  /// The optimizer has made update `step`, counted from 1. All ranks call it.
  virtual void updated(int64_t /*step*/) {}
  /// Puts weights and buffers that stand for all ranks into the model, until separate() puts the
  /// rank's own back: around an evaluation or a save. All ranks call them.
  virtual void unite() {}
  virtual void separate() {}

  /// What this rank alone holds between steps and needs to go on bit for bit. Shares the tensors.
  virtual StateDict state() const { return {}; }
  /// Throws CheckpointError when it does not fit.
  virtual void load(const StateDict& /*state*/) {}
};

/// What a strategy acts on; tensors share memory with the model.
struct StrategyContext {
  std::vector<NamedTensor> parameters;  ///< those that are trained
  std::vector<NamedTensor> buffers;
  Communicator* group = nullptr;  ///< outlives the strategy
};

/// A process that is alone.
std::unique_ptr<Strategy> make_single();

struct DdpOptions {
  int64_t bucket_bytes = 25 << 20;
  bool broadcast_buffers = true;
  /// The type that gradients have on their way between ranks; null: their own.
  std::optional<at::ScalarType> wire_type = {};
  std::optional<PowerSgdOptions> power_sgd = {};
};

/// Data parallel training: gradients are summed in buckets while the backward pass of the last part
/// still runs (Li et al., "PyTorch Distributed", VLDB 2020). The buckets follow from the
/// parameters alone, so that every process sums in the same order.
std::unique_ptr<Strategy> make_ddp(const StrategyContext& context, const DdpOptions& options);

/// Ranks update weights by their own gradients and average them after every `every` updates (Stich,
/// "Local SGD Converges Fast and Communicates Little", ICLR 2019), as Accelerate's LocalSGD.
std::unique_ptr<Strategy> make_local_sgd(const StrategyContext& context, int64_t every);

struct CanonicalOptions {
  int64_t bucket_bytes = 25 << 20;
  uint64_t seed = 0;  ///< with step and part, seeds what the model draws in a pass
};

/// Gradients are summed over one binary tree of the window's parts, whichever rank made them: any
/// number of ranks that is a power of two and divides their number gives the same bits. The tree
/// joins parts i and i + planned/2, and so on, so that each rank's parts are a branch of it.
std::unique_ptr<Strategy> make_canonical(const StrategyContext& context,
                                         const CanonicalOptions& options);

}  // namespace accel
