// Optimizers and their state.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/api/batch.h"
#include "core/api/ranks.h"
#include "core/api/state_swapper.h"

namespace accel {

/// Exchanges tensors that are divided over ranks as a parameter is. All ranks call the same, in the
/// same order.
class ShardExchange {
 public:
  virtual ~ShardExchange() = default;
  /// The whole tensor; each rank passes its part.
  virtual at::Tensor gather(const at::Tensor& part, const Parameter& parameter) const = 0;
  /// This rank's part of a whole tensor: a view.
  virtual at::Tensor part_of(const at::Tensor& whole, const Parameter& parameter) const = 0;
  /// Element-wise over the ranks that hold the parts of `parameter`, in place, to the same bits on
  /// each.
  virtual void all_reduce(const at::Tensor& values, Reduce how,
                          const Parameter& parameter) const = 0;
};

struct OptimizerContext {
  /// The trainable parameters, in the order of the model. Sharded ones are this rank's part.
  std::vector<Parameter> parameters;
  std::shared_ptr<const ShardExchange> shards = {};  ///< null: all parameters are whole
  /// Of parameters and gradients that are swapped, and for state; null: all are in memory.
  std::shared_ptr<StateSwapper> swapper = {};
};

/// A hyperparameter as Python's param_groups holds it; monostate is None, the pair a tuple (betas).
using HyperValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<double>>;

/// torch.optim's state_dict, with names instead of parameter ids.
struct OptimizerState {
  struct ParameterState {
    std::string name;
    /// "step", "exp_avg", ... as PyTorch names them; empty: fresh. Without `global` a tensor of the
    /// shape of the parameter's part is divided as the parameter.
    std::vector<Parameter> slots;
  };
  struct Group {
    std::vector<std::pair<std::string, HyperValue>> hyper;  ///< "lr", "betas", ...
    std::vector<ParameterState> parameters;
  };
  std::vector<Group> groups;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update from the current gradients. Parameters without a gradient are skipped.
  virtual void step() = 0;
  /// Sets all gradients to none.
  virtual void zero_grad() = 0;
  /// The recipe's learning rate of each group, which schedules scale.
  virtual std::vector<double> base_lrs() const = 0;
  /// Sets the learning rate of each group for the next steps.
  virtual void set_lrs(std::span<const double> lrs) = 0;
  /// The parameters of all groups, in the groups' order.
  virtual std::vector<Parameter> parameters() const = 0;
  /// One group for each of base_lrs(). Shares the tensors: copy them before the next step().
  virtual OptimizerState state() const = 0;
  /// Bytes that the first step() will add to state(), as far as they are known before.
  virtual int64_t pending_state_bytes() const = 0;
  /// Throws CheckpointError when names, shapes or slots do not match.
  virtual void load(const OptimizerState& state) = 0;
  /// Whether step() supports sharded parameters: the update of an element depends on that element
  /// of weight, gradient and state alone, or on what step() exchanges by OptimizerContext::shards.
  virtual bool supports_shards() const { return false; }
  /// Whether step() swaps in what OptimizerContext::swapper has of parameters and gradients, and
  /// keeps its state there.
  virtual bool supports_swapping() const { return false; }
  /// Allocates the memory of the state before the first step(), which avoids fragmentation by
  /// activations. Optional; state() is unchanged.
  virtual void preallocate_state() {}
};

}  // namespace accel
