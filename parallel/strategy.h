// How ranks share the work of an optimizer step.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/api/batch.h"
#include "parallel/communicator.h"
#include "parallel/power_sgd.h"

namespace accel {

/// A repeated micro-batch, whose gradients are zero and do not count.
inline constexpr int64_t kIdleMicroBatch = -1;

/// The micro-batches of one optimizer step, over all ranks and of this one.
struct StepLayout {
  int64_t step = 0;               ///< the optimizer step, from 1
  int64_t num_micro_batches = 1;  ///< of a whole global batch, over all ranks
  /// Indices of this rank's: rank, rank + world, ..., or kIdleMicroBatch.
  c10::SmallVector<int64_t, 4> own;
  bool overlap = true;  ///< false: nothing is exchanged before finish()
};

/// Parameters whose gradients are in memory.
using GradientVisitor = std::function<void(std::span<const Parameter>)>;

/// The passes of one update's micro-batches of this rank.
class MicroBatchPasses {
 public:
  virtual ~MicroBatchPasses() = default;
  virtual size_t count() const = 0;
  virtual const Batch& batch(size_t i) const = 0;
  /// Forward and backward of micro-batch `i`.
  virtual void run(size_t i) = 0;
  /// Forward alone: the loss as backward() takes it.
  virtual at::Tensor forward(size_t i) = 0;
  /// Calls `pass`, which computes gradients.
  virtual void backward(const std::function<void()>& pass) = 0;
};

/// How ranks share the model, gradients and weights. It wraps the passes of an update:
///
///     strategy.begin(layout);
///     strategy.run_passes(passes);
///     strategy.finish();
///
/// where run_passes() calls for each k < layout.own.size(), unless stages of a pipeline share them:
///
///     strategy.before_pass(k + 1 == layout.own.size());
///     passes.run(strategy.micro_batch_at(k));
///     strategy.after_pass();
///
/// Losses are already shares of the global batch's mean, so that gradients only have to be summed.
/// They are undefined when an update begins. All ranks call the same, in the same order.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual void begin(const StepLayout& /*layout*/) {}
  virtual void run_passes(MicroBatchPasses& passes);
  /// Evaluation: calls `pass(i)`, a forward pass of `batches[i]`, for each i. On a rank without the
  /// model's head the pass ends early, by an exception that this function catches.
  virtual void run_forward(const std::vector<Batch>& batches,
                           const std::function<void(size_t i)>& pass);
  /// Which of this rank's micro-batches the `k`-th pass takes.
  virtual size_t micro_batch_at(size_t k) const { return k; }
  /// Before a forward pass; after the `last` one gradients may be exchanged while backward runs.
  virtual void before_pass(bool /*last*/) {}
  virtual void after_pass() {}
  /// Leaves the sum over all micro-batches of all ranks in every parameter's gradient, the same
  /// bits on each rank; undefined where no micro-batch has one.
  virtual void finish() {}

  /// The norm of all gradients as one vector, over all ranks that hold a share of them: 0-d.
  virtual at::Tensor gradient_norm(std::span<const Parameter> parameters) const;
  /// Calls `visit` for the parameters, a few at a time where gradients are swapped.
  virtual void visit_gradients(std::span<const Parameter> parameters,
                               const GradientVisitor& visit) const {
    visit(parameters);
  }
  /// Changes gradients elementwise, at the latest when the optimizer reads them.
  virtual void change_gradients(std::span<const Parameter> parameters,
                                const GradientVisitor& change) const {
    change(parameters);
  }
  /// Multiplies the gradients by max_norm / (norm + 1e-6) where that is below 1, as torch's
  /// clip_grad_norm_. Returns the norm before.
  at::Tensor clip_grad_norm(std::span<const Parameter> parameters, double max_norm) const;

  /// Copies rank 0's buffers to all ranks: before a step and before an evaluation.
  virtual void broadcast_buffers() {}

  /// The parameters as this rank holds them: its shards in place of those that are sharded. The
  /// optimizer and callbacks act on them.
  virtual std::vector<Parameter> shards_of(std::vector<Parameter> parameters) const {
    return parameters;
  }
  /// Makes whole weights available to forward passes, until reshard(). Calls nest. All ranks call
  /// them, and run the same forward passes in between.
  virtual void unshard() {}
  virtual void reshard() {}
  /// The weights of shards_of() have changed outside an update.
  virtual void refresh_weights() {}
  /// Reduces the flag of an overflow, 1-d, over all ranks that hold shards of the gradients.
  virtual void reduce_found_inf(const at::Tensor& /*found_inf*/) const {}

  /// Whether this rank computes losses and outputs: the last stage of a pipeline does.
  virtual bool has_head() const { return true; }
  /// False: gradients, and so weights between averages, are a rank's own.
  virtual bool syncs_gradients() const { return true; }
  /// The optimizer has made update `step`, counted from 1. All ranks call it.
  virtual void updated(int64_t /*step*/) {}
  /// Puts the ranks' average of weights and rank 0's buffers into the model, until restore_local()
  /// puts the rank's own back: around an evaluation or a save. All ranks call them.
  virtual void swap_in_average() {}
  virtual void restore_local() {}

  /// State of this rank alone between steps, needed to resume bit for bit. Shares the tensors.
  virtual StateDict state() const { return {}; }
  /// Throws CheckpointError when it does not fit.
  virtual void load(const StateDict& /*state*/) {}
};

/// What a strategy acts on; tensors share memory with the model.
struct StrategyContext {
  std::vector<Parameter> parameters;  ///< those that are trained
  std::vector<Parameter> buffers;
  Communicator* group = nullptr;  ///< outlives the strategy
};

/// One process: gradients need no exchange.
std::unique_ptr<Strategy> make_single();

struct DdpOptions {
  int64_t bucket_bytes = 25 << 20;
  bool broadcast_buffers = true;
  /// The type of gradients in the all-reduce; null: their own.
  std::optional<at::ScalarType> comm_dtype = {};
  std::optional<PowerSgdOptions> power_sgd = {};
};

/// Data parallel training: gradients are summed in buckets while the backward pass of the last
/// micro-batch still runs (Li et al., "PyTorch Distributed", VLDB 2020). The buckets follow from
/// the parameters alone, so that every process sums in the same order.
std::unique_ptr<Strategy> make_ddp(const StrategyContext& context, const DdpOptions& options);

/// Ranks update weights by their own gradients and average them after every `every` updates (Stich,
/// "Local SGD Converges Fast and Communicates Little", ICLR 2019), as Accelerate's LocalSGD.
std::unique_ptr<Strategy> make_local_sgd(const StrategyContext& context, int64_t every);

struct CanonicalOptions {
  int64_t bucket_bytes = 25 << 20;
  uint64_t seed = 0;  ///< with step and micro-batch, seeds the random numbers of a pass
};

/// Sums gradients over one binary tree of the global batch's micro-batches, independent of ranks:
/// any number of ranks that is a power of two and divides the number of micro-batches gives the
/// same bits. The tree adds micro-batches i and i + count/2, and so on, so that each rank's are a
/// subtree.
std::unique_ptr<Strategy> make_canonical(const StrategyContext& context,
                                         const CanonicalOptions& options);

}  // namespace accel
