// Turns gradients into updates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/batch.h"

namespace accel {

/// The parameters to update, in the order of the model. Those that need no gradient are left out.
struct OptimizerContext {
  std::vector<NamedTensor> parameters;
};

/// A hyperparameter as Python's param_groups holds it; monostate is None, the pair a tuple (betas).
using HyperValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<double>>;

/// Mirrors torch.optim's state_dict, with names in place of running numbers.
struct OptimizerState {
  struct Parameter {
    std::string name;
    std::vector<NamedTensor> slots;  ///< "step", "exp_avg", ... as PyTorch names them; empty: fresh
  };
  struct Group {
    std::vector<std::pair<std::string, HyperValue>> hyper;  ///< "lr", "betas", ...
    std::vector<Parameter> parameters;
  };
  std::vector<Group> groups;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update from the gradients the parameters hold. Parameters without one are left alone.
  virtual void step() = 0;
  /// Drops all gradients.
  virtual void zero_grad() = 0;
  /// Per group, as the recipe gives them: what schedules scale.
  virtual std::vector<double> base_lrs() const = 0;
  /// One rate per group, for the steps that follow.
  virtual void set_lrs(std::span<const double> lrs) = 0;
  /// The parameters of all groups, in the groups' order.
  virtual std::vector<NamedTensor> parameters() const = 0;
  /// One group for each of base_lrs(). Shares the tensors: copy them before the next step().
  virtual OptimizerState state() const = 0;
  /// Bytes that state() has not yet but will have after updates, as far as is known before them.
  virtual int64_t bytes_to_come() const = 0;
  /// Throws CheckpointError when names, shapes or slots do not fit.
  virtual void load(const OptimizerState& state) = 0;
  /// Takes now, if it likes, the memory that its first step() takes, so that what stays for the
  /// whole run does not come to lie between what passes leave. state() is as before.
  virtual void reserve() {}
};

}  // namespace accel
