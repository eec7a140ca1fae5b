// Base class of optimizers: parameter groups, learning rates, state.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/api/optimizer.h"
#include "train/optim/layer_decay.h"
#include "train/optim/parameter_groups.h"
#include "train/optim/skips_updates.h"

namespace accel {

/// A group's hyperparameters, named as in PyTorch's param_groups.
using Hyper = std::vector<std::pair<std::string, HyperValue>>;

/// Names of the state tensors per parameter, as in torch.optim.
using SlotNames = std::vector<std::string>;

/// Input of one group's update. The lists are parallel and hold only parameters with a gradient.
struct GroupUpdate {
  double lr = 0;
  std::vector<at::Tensor> parameters;
  std::vector<const Parameter*> origins;       ///< of `parameters`
  std::vector<at::Tensor> gradients;           ///< in the parameters' layout; read only
  std::vector<std::vector<at::Tensor>> slots;  ///< by slot, then by parameter

  /// Releases all tensors.
  void clear() {
    parameters.clear();
    origins.clear();
    gradients.clear();
    for (std::vector<at::Tensor>& slot : slots) slot.clear();
  }
};

/// Adds one to each of the "step" slots.
void count_update(const std::vector<at::Tensor>& steps);

/// Throws CheckpointError when a saved state has another number of groups.
void check_group_count(const OptimizerState& state, size_t wanted);

/// An Optimizer without its update rule: groups, learning rates, state.
/// Skips updates where `found_inf` is set: an update rule that does not read the flag is undone
/// from copies, without the host.
class GroupedOptimizer : public Optimizer, public SkipsUpdates {
 public:
  void step() final;
  void zero_grad() final;
  std::vector<double> base_lrs() const final;
  void set_lrs(std::span<const double> lrs) final;
  std::vector<Parameter> parameters() const final;
  OptimizerState state() const override;
  int64_t pending_state_bytes() const final;
  /// Loads the slots. Hyperparameters stay the recipe's, but for those of load_hyper().
  void load(const OptimizerState& state) override;
  void preallocate_state() final;
  bool supports_swapping() const override { return true; }
  bool can_skip() const override { return true; }

 protected:
  /// `swapper` null: all parameters and state are in memory. `shards` null: all are whole.
  explicit GroupedOptimizer(std::shared_ptr<StateSwapper> swapper = {},
                            std::shared_ptr<const ShardExchange> shards = {})
      : swapper_(std::move(swapper)), shards_(std::move(shards)) {}

  /// A parameter and its state; undefined slots are unused (so far).
  struct Item {
    Parameter parameter;
    std::vector<at::Tensor> slots;
    std::vector<at::Tensor> reserved = {};  ///< preallocated slots, until the first step
    size_t unit = 0;                        ///< in units_
    std::vector<int64_t> offsets = {};      ///< of slots in the unit's state; kInMemory elsewhere
  };
  struct Group {
    std::vector<Item> items;
    SlotNames slot_names;
    double base_lr = 0;
    double lr = 0;
    GroupUpdate update = {};          ///< empty between steps; its memory is reused
    std::vector<Item*> updated = {};  ///< the same
  };

  void add_group(const std::vector<Parameter>& parameters, SlotNames slot_names, double lr);
  /// Creates the slots of all parameters now instead of at the first gradient.
  void make_slots();
  /// The shape of a slot over all ranks. Default: 0-d for "step", else the parameter's.
  virtual Shape slot_shape(const std::string& slot, const Parameter& parameter) const;
  /// Whether the "step" slots are on their parameters' device, which does not count updates that it
  /// skips. Else the host counts.
  virtual bool counts_on_device() const { return true; }
  /// Whether update_group() of the group reads found_inf(), and skips the update itself.
  virtual bool reads_found_inf(size_t /*group*/) const { return false; }
  /// The initial value of this rank's part of a slot. Default: zeros, float32 for "step", else in
  /// the parameter's type. Undefined: the parameter has no such slot, or update() creates it.
  virtual at::Tensor fresh_slot(size_t group, const std::string& slot,
                                const Parameter& parameter) const;
  virtual void update_group(size_t group, GroupUpdate& work) = 0;
  virtual Hyper group_hyper(size_t group, double lr) const = 0;
  /// Null: all parameters are whole.
  const ShardExchange* shards() const { return shards_.get(); }
  /// Of the next step().
  double lr_of(size_t group) const { return groups_[group].lr; }
  /// Called once at the beginning of step(), before update_group() of any group, which a step may
  /// call several times.
  virtual void begin_step() {}
  /// Calls `visit` without autograd for each group with gradients, as step() does update_group(),
  /// and undoes the changes where found_inf() is set.
  using GroupVisit = std::function<void(size_t group, GroupUpdate& work)>;
  void visit_groups(const GroupVisit& visit);
  /// Takes the entries of a saved group that are state.
  virtual void load_hyper(size_t /*group*/, const Hyper& /*saved*/) {}

 private:
  static constexpr int64_t kInMemory = -1;

  /// Parameters that are updated together: those of one slab, or all that are in memory of one
  /// device.
  struct Unit {
    std::optional<size_t> parameters;  ///< their slab
    c10::Device device = at::kCPU;
    StateBuffer state = {};  ///< the slots, if parameters are swapped
    bool has_state = false;  ///< a slot in `state` has been filled
    bool laid_out = false;
  };

  /// The shape of this rank's part of a slot.
  Shape share_of_slot(const std::string& slot, const Parameter& parameter) const;
  size_t unit_of(const at::Tensor& parameter);
  /// Reserves the state of units whose parameters are swapped.
  void lay_out_state();
  void lay_out_slots(size_t group, Item& item, int64_t& bytes) const;
  /// The slab of the gradients of the unit's parameters.
  std::optional<size_t> gradients_of(size_t unit) const;
  bool has_gradients(size_t unit) const;
  void prefetch(size_t unit) const;
  void visit_unit(size_t unit, const GroupVisit& visit);
  void visit_group(size_t group, const GroupVisit& visit);
  SwapAccess state_access(size_t unit) const;
  /// A slot's tensor, moved to the unit's state if it belongs there.
  at::Tensor placed(const Item& item, size_t slot, const at::Tensor& value);
  /// A slot for state(), with its placements.
  Parameter state_slot(const std::string& slot, const at::Tensor& tensor,
                       const Parameter& parameter) const;
  void fill_slots(size_t group, Item& item);
  void drop_reserved();
  /// Lists the parameters of a unit with a gradient in the group's update.
  void gather(size_t group, size_t unit);
  void load_item(size_t group, Item& item, const OptimizerState::ParameterState& saved);

  std::shared_ptr<StateSwapper> swapper_;
  std::shared_ptr<const ShardExchange> shards_;
  std::vector<Group> groups_;
  std::vector<Unit> units_;
};

/// An optimizer with `Options`, which has `lr`, `groups`, `layer_decay`, static hyper_schema(),
/// slots() and hyper(lr).
template <class Options>
class OptimizerOf : public GroupedOptimizer {
 protected:
  OptimizerOf(const Options& options, const OptimizerContext& context)
      : GroupedOptimizer(context.swapper, context.shards) {
    const auto split = detail::split_parameters(context.parameters, options.groups.list);
    const LayerRates rates(context.parameters, options.layer_decay);
    for (size_t i = 0; i < split.size(); ++i) {
      const bool own = i < options.groups.list.size();
      const Options group = own ? with_changes(options, options.groups.list[i]) : options;
      for (const RatedParameters& part : rates.split(split[i])) {
        options_.push_back(group);
        add_group(part.parameters, group.slots(), group.lr * part.factor);
      }
    }
  }

  virtual void update(const Options& options, GroupUpdate& work) = 0;
  const Options& options(size_t group) const { return options_[group]; }
  size_t num_groups() const { return options_.size(); }

 private:
  void update_group(size_t group, GroupUpdate& work) override { update(options_[group], work); }
  Hyper group_hyper(size_t group, double lr) const override { return options_[group].hyper(lr); }

  std::vector<Options> options_;
};

}  // namespace accel
