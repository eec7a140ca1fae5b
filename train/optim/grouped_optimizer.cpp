#include "train/optim/grouped_optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/share_region.h"

namespace accel {
namespace {

/// The fused kernels access raw memory: a gradient needs the layout of its parameter.
at::Tensor laid_out_like(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

/// With a meta tensor, whose slots have shapes and types without allocating them.
Parameter without_data(const Parameter& parameter) {
  Parameter out = parameter;
  out.local = at::empty_like(parameter.local, parameter.local.options().device(at::kMeta));
  return out;
}

/// Elements of parameters that are updated together, and of their copies, where an update may be
/// undone.
constexpr int64_t kElementsToUndo = 1 << 24;

/// The end of the parameters from `begin` on that are updated together: at least one.
size_t end_of_chunk(const GroupUpdate& work, size_t begin) {
  int64_t elements = work.parameters[begin].numel();
  size_t end = begin + 1;
  for (; end < work.parameters.size(); ++end) {
    elements += work.parameters[end].numel();
    if (elements > kElementsToUndo) break;
  }
  return end;
}

template <class T>
std::vector<T> chunk_of(const std::vector<T>& list, size_t begin, size_t end) {
  const auto first = list.begin();
  return {first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end)};
}

GroupUpdate chunk_of(const GroupUpdate& work, size_t begin, size_t end) {
  GroupUpdate chunk{.lr = work.lr,
                    .parameters = chunk_of(work.parameters, begin, end),
                    .origins = chunk_of(work.origins, begin, end),
                    .gradients = chunk_of(work.gradients, begin, end),
                    .slots = {}};
  for (const auto& slot : work.slots) chunk.slots.push_back(chunk_of(slot, begin, end));
  return chunk;
}

/// Copies of the parameters and the state of an update.
class UndoCopies {
 public:
  UndoCopies(const GroupUpdate& work, const SlotNames& slots) : slots_(slots) {
    for_each(work, [&](const at::Tensor& tensor) {
      copies_.push_back(tensor.defined() ? tensor.clone() : at::Tensor());
    });
  }

  /// Undoes the update of `work` where `found_inf`, 0-d on the device, is 1. State that was
  /// undefined becomes zeros.
  void undo(const GroupUpdate& work, const at::Tensor& found_inf) const {
    const at::Tensor found = found_inf.to(at::kBool);
    auto copy = copies_.begin();
    for_each(work, [&](at::Tensor tensor) {
      const at::Tensor& before = *copy++;
      if (before.defined()) {
        at::where_out(tensor, found, before, tensor);
      } else if (tensor.defined()) {
        tensor.masked_fill_(found, 0);
      }
    });
  }

 private:
  /// All but the step counts, of which step() subtracts the update.
  template <class Visit>
  void for_each(const GroupUpdate& work, const Visit& visit) const {
    for (const at::Tensor& parameter : work.parameters) visit(parameter);
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (slots_[s] == "step") continue;
      for (const at::Tensor& slot : work.slots[s]) visit(slot);
    }
  }

  const SlotNames& slots_;
  std::vector<at::Tensor> copies_;
};

[[noreturn]] void refuse_state(const std::string& what) {
  throw CheckpointError(text("the optimizer's state {}", what));
}

}  // namespace

void count_update(const std::vector<at::Tensor>& steps) {
  const auto is_here = [](const at::Tensor& step) {
    return step.is_cpu() && step.scalar_type() == at::kFloat;
  };
  if (!std::all_of(steps.begin(), steps.end(), is_here)) return at::_foreach_add_(steps, 1);
  for (const at::Tensor& step : steps) *step.mutable_data_ptr<float>() += 1;
}

void check_group_count(const OptimizerState& state, size_t wanted) {
  if (state.groups.size() == wanted) return;
  refuse_state(text("has {} groups, the recipe has {}", state.groups.size(), wanted));
}

void GroupedOptimizer::add_group(const std::vector<Parameter>& parameters, SlotNames slot_names,
                                 double lr) {
  Group group{{}, std::move(slot_names), lr, lr};
  for (const Parameter& parameter : parameters) {
    group.items.push_back({.parameter = parameter,
                           .slots = std::vector<at::Tensor>(group.slot_names.size()),
                           .unit = unit_of(parameter.local)});
  }
  groups_.push_back(std::move(group));
}

void GroupedOptimizer::make_slots() {
  lay_out_state();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const SwapScope scope = units_[unit].state.scope(SwapAccess::kOverwrite);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (Item& item : groups_[g].items) {
        if (item.unit == unit) fill_slots(g, item);
      }
    }
    units_[unit].has_state = true;
  }
}

Shape GroupedOptimizer::slot_shape(const std::string& slot, const Parameter& parameter) const {
  return slot == "step" ? Shape() : parameter.shape();
}

Shape GroupedOptimizer::share_of_slot(const std::string& slot, const Parameter& parameter) const {
  Shape whole = slot_shape(slot, parameter);
  if (parameter.is_replicated()) return whole;
  if (whole == parameter.shape()) return parameter.local.sizes().vec();
  const std::vector<Placement> placements = state_placements(whole, parameter);
  if (placements.empty()) return whole;
  const at::Tensor form = at::empty(whole, at::kMeta);
  return shards_->part_of(form, {slot, {}, whole, placements}).sizes().vec();
}

at::Tensor GroupedOptimizer::fresh_slot(size_t /*group*/, const std::string& slot,
                                        const Parameter& parameter) const {
  const at::Tensor& local = parameter.local;
  const Shape shape = share_of_slot(slot, parameter);
  if (slot == "step") {
    const at::Device device = counts_on_device() ? local.device() : at::kCPU;
    return at::zeros(shape, at::TensorOptions(at::kFloat).device(device));
  }
  if (local.sizes() == at::IntArrayRef(shape)) return at::zeros_like(local);
  return at::zeros(shape, local.options().requires_grad(false));
}

size_t GroupedOptimizer::unit_of(const at::Tensor& parameter) {
  const auto slab = swapper_ ? swapper_->find(parameter) : std::nullopt;
  const auto found = std::find_if(units_.begin(), units_.end(), [&](const Unit& unit) {
    return unit.parameters == slab && unit.device == parameter.device();
  });
  if (found != units_.end()) return static_cast<size_t>(found - units_.begin());
  units_.push_back({.parameters = slab, .device = parameter.device()});
  return units_.size() - 1;
}

void GroupedOptimizer::lay_out_state() {
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (!units_[unit].parameters || std::exchange(units_[unit].laid_out, true)) continue;
    int64_t bytes = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (Item& item : groups_[g].items) {
        if (item.unit == unit) lay_out_slots(g, item, bytes);
      }
    }
    if (bytes > 0) units_[unit].state = StateBuffer(swapper_, bytes, bytes);
  }
}

void GroupedOptimizer::lay_out_slots(size_t group, Item& item, int64_t& bytes) const {
  constexpr int64_t kAlignment = 64;
  const Parameter form = without_data(item.parameter);
  for (const std::string& name : groups_[group].slot_names) {
    const at::Tensor fresh = fresh_slot(group, name, form);
    const at::Tensor& like = fresh.defined() ? fresh : form.local;  // update() makes the others
    item.offsets.push_back(like.dim() == 0 ? kInMemory : bytes);
    if (like.dim() == 0) continue;
    bytes += (static_cast<int64_t>(like.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
  }
}

std::optional<size_t> GroupedOptimizer::gradients_of(size_t unit) const {
  for (const Group& group : groups_) {
    for (const Item& item : group.items) {
      const at::Tensor& gradient = item.parameter.local.grad();
      if (item.unit != unit || !gradient.defined()) continue;
      return swapper_ ? swapper_->find(gradient) : std::nullopt;
    }
  }
  return std::nullopt;
}

bool GroupedOptimizer::has_gradients(size_t unit) const {
  return std::any_of(groups_.begin(), groups_.end(), [unit](const Group& group) {
    return std::any_of(group.items.begin(), group.items.end(), [unit](const Item& item) {
      return item.unit == unit && item.parameter.local.grad().defined();
    });
  });
}

SwapAccess GroupedOptimizer::state_access(size_t unit) const {
  return units_[unit].has_state ? SwapAccess::kChange : SwapAccess::kOverwrite;
}

void GroupedOptimizer::prefetch(size_t unit) const {
  if (!swapper_ || unit >= units_.size() || !has_gradients(unit)) return;
  if (units_[unit].parameters) swapper_->prefetch(*units_[unit].parameters, SwapAccess::kUpdate);
  if (const auto slab = gradients_of(unit)) swapper_->prefetch(*slab, SwapAccess::kRead);
  units_[unit].state.prefetch(state_access(unit));
}

at::Tensor GroupedOptimizer::placed(const Item& item, size_t slot, const at::Tensor& value) {
  const StateBuffer& state = units_[item.unit].state;
  const int64_t offset = slot < item.offsets.size() ? item.offsets[slot] : kInMemory;
  if (!value.defined() || offset == kInMemory) return value;
  if (value.storage().is_alias_of(state.bytes().storage())) return value;
  return state.bytes()
      .narrow(0, offset, static_cast<int64_t>(value.nbytes()))
      .view(value.scalar_type())
      .view(value.sizes())
      .copy_(value);
}

void GroupedOptimizer::fill_slots(size_t group, Item& item) {
  const SlotNames& names = groups_[group].slot_names;
  for (size_t s = 0; s < names.size(); ++s) {
    at::Tensor& slot = item.slots[s];
    if (slot.defined()) continue;
    slot = placed(item, s,
                  item.reserved.empty() ? fresh_slot(group, names[s], item.parameter)
                                        : std::move(item.reserved[s]));
  }
}

void GroupedOptimizer::preallocate_state() {
  lay_out_state();
  for (size_t g = 0; g < groups_.size(); ++g) {
    const SlotNames& names = groups_[g].slot_names;
    for (Item& item : groups_[g].items) {
      if (units_[item.unit].parameters) continue;
      item.reserved.resize(names.size());
      for (size_t s = 0; s < names.size(); ++s) {
        if (item.slots[s].defined()) continue;
        item.reserved[s] = fresh_slot(g, names[s], item.parameter);
      }
    }
  }
}

/// Drops slots of parameters without a gradient in the first step, which may never have one.
void GroupedOptimizer::drop_reserved() {
  for (Group& group : groups_) {
    for (Item& item : group.items) item.reserved.clear();
  }
}

void GroupedOptimizer::gather(size_t index, size_t unit) {
  Group& group = groups_[index];
  GroupUpdate& work = group.update;
  work.clear();
  group.updated.clear();
  work.lr = group.lr;
  work.slots.resize(group.slot_names.size());
  for (Item& item : group.items) {
    const at::Tensor& parameter = item.parameter.local;
    const at::Tensor& gradient = parameter.grad();
    if (item.unit != unit || !gradient.defined()) continue;
    fill_slots(index, item);
    group.updated.push_back(&item);
    work.parameters.push_back(parameter);
    work.origins.push_back(&item.parameter);
    work.gradients.push_back(laid_out_like(parameter, gradient));
    for (size_t s = 0; s < item.slots.size(); ++s) work.slots[s].push_back(item.slots[s]);
  }
}

void GroupedOptimizer::step() {
  const c10::NoGradGuard no_grad;
  begin_step();
  visit_groups([this](size_t group, GroupUpdate& work) {
    update_group(group, work);
    if (!found_inf().defined()) return;
    const SlotNames& names = groups_[group].slot_names;
    for (size_t s = 0; s < names.size(); ++s) {
      if (names[s] == "step") at::_foreach_add_(work.slots[s], found_inf(), -1);
    }
  });
}

void GroupedOptimizer::visit_groups(const GroupVisit& visit) {
  const c10::NoGradGuard no_grad;
  lay_out_state();
  for (size_t unit = 0; unit < units_.size(); ++unit) visit_unit(unit, visit);
  drop_reserved();
}

void GroupedOptimizer::visit_unit(size_t unit, const GroupVisit& visit) {
  if (!has_gradients(unit)) return;
  StateSwapper* const swapper = swapper_.get();
  const SwapScope parameters(swapper, units_[unit].parameters, SwapAccess::kUpdate);
  const SwapScope gradients(swapper, gradients_of(unit), SwapAccess::kRead);
  const SwapScope state = units_[unit].state.scope(state_access(unit));
  prefetch(unit + 1);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    gather(g, unit);
    if (group.updated.empty()) continue;
    visit_group(g, visit);
    for (size_t i = 0; i < group.updated.size(); ++i) {
      Item& item = *group.updated[i];
      for (size_t s = 0; s < item.slots.size(); ++s) {
        item.slots[s] = placed(item, s, group.update.slots[s][i]);
      }
    }
    group.update.clear();
  }
  units_[unit].has_state = true;
}

void GroupedOptimizer::visit_group(size_t group, const GroupVisit& visit) {
  GroupUpdate& work = groups_[group].update;
  if (!found_inf().defined() || reads_found_inf(group)) return visit(group, work);
  for (size_t begin = 0; begin < work.parameters.size();) {
    const size_t end = end_of_chunk(work, begin);
    GroupUpdate chunk = chunk_of(work, begin, end);
    const UndoCopies before(chunk, groups_[group].slot_names);
    visit(group, chunk);
    before.undo(chunk, found_inf());
    for (size_t s = 0; s < work.slots.size(); ++s) {
      std::ranges::copy(chunk.slots[s], work.slots[s].begin() + static_cast<ptrdiff_t>(begin));
    }
    begin = end;
  }
}

void GroupedOptimizer::zero_grad() {
  for (Group& group : groups_) {
    for (Item& item : group.items) item.parameter.local.mutable_grad() = at::Tensor();
  }
}

std::vector<double> GroupedOptimizer::base_lrs() const {
  std::vector<double> lrs;
  for (const Group& group : groups_) lrs.push_back(group.base_lr);
  return lrs;
}

void GroupedOptimizer::set_lrs(std::span<const double> lrs) {
  if (lrs.size() != groups_.size()) throw std::logic_error("one learning rate per group is needed");
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].lr = lrs[g];
}

std::vector<Parameter> GroupedOptimizer::parameters() const {
  std::vector<Parameter> all;
  for (const Group& group : groups_) {
    for (const Item& item : group.items) all.push_back(item.parameter);
  }
  return all;
}

Parameter GroupedOptimizer::state_slot(const std::string& slot, const at::Tensor& tensor,
                                       const Parameter& parameter) const {
  if (parameter.is_replicated()) return {slot, tensor};
  Shape whole = slot_shape(slot, parameter);
  std::vector<Placement> placements = state_placements(whole, parameter);
  return {slot, tensor, std::move(whole), std::move(placements)};
}

OptimizerState GroupedOptimizer::state() const {
  OptimizerState state;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    OptimizerState::Group& saved = state.groups.emplace_back();
    saved.hyper = group_hyper(g, group.lr);
    saved.hyper.emplace_back("initial_lr", group.base_lr);
    for (const Item& item : group.items) {
      OptimizerState::ParameterState& parameter = saved.parameters.emplace_back();
      parameter.name = item.parameter.name;
      for (size_t s = 0; s < item.slots.size(); ++s) {
        if (item.slots[s].defined()) {
          parameter.slots.push_back(state_slot(group.slot_names[s], item.slots[s], item.parameter));
        }
      }
    }
  }
  return state;
}

int64_t GroupedOptimizer::pending_state_bytes() const {
  int64_t bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const Item& item : groups_[g].items) {
      if (units_[item.unit].parameters) continue;  // reserved already
      const Parameter shape = without_data(item.parameter);
      for (size_t s = 0; s < item.slots.size(); ++s) {
        if (item.slots[s].defined()) continue;
        const at::Tensor fresh = fresh_slot(g, groups_[g].slot_names[s], shape);
        if (fresh.defined()) bytes += static_cast<int64_t>(fresh.nbytes());
      }
    }
  }
  return bytes;
}

void GroupedOptimizer::load(const OptimizerState& state) {
  check_group_count(state, groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto& saved = state.groups[g].parameters;
    std::vector<Item>& items = groups_[g].items;
    if (saved.size() != items.size()) {
      refuse_state("has " + std::to_string(saved.size()) + " parameters in group " +
                   std::to_string(g) + ", the recipe puts " + std::to_string(items.size()) +
                   " there");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (saved[i].name != items[i].parameter.name) {
        refuse_state(
            text("has '{}' where the recipe has '{}'", saved[i].name, items[i].parameter.name));
      }
    }
  }
  lay_out_state();
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const SwapScope scope = units_[unit].state.scope(SwapAccess::kOverwrite);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t i = 0; i < groups_[g].items.size(); ++i) {
        Item& item = groups_[g].items[i];
        if (item.unit == unit) load_item(g, item, state.groups[g].parameters[i]);
      }
    }
    units_[unit].has_state = true;
  }
  for (size_t g = 0; g < groups_.size(); ++g) load_hyper(g, state.groups[g].hyper);
}

void GroupedOptimizer::load_item(size_t group, Item& item,
                                 const OptimizerState::ParameterState& saved) {
  const SlotNames& names = groups_[group].slot_names;
  const Parameter form = without_data(item.parameter);
  std::vector<at::Tensor> slots(names.size());
  for (const Parameter& slot : saved.slots) {
    const auto found = std::find(names.begin(), names.end(), slot.name);
    if (found == names.end()) {
      refuse_state(
          text("has '{}' for '{}', which this optimizer does not have", slot.name, saved.name));
    }
    at::Tensor& target = slots[static_cast<size_t>(found - names.begin())];
    if (target.defined()) {
      refuse_state(text("has '{}' for '{}' twice", slot.name, saved.name));
    }
    const at::Tensor fresh = fresh_slot(group, slot.name, form);
    const at::Tensor& like = fresh.defined() ? fresh : form.local;
    if (slot.local.sizes() != like.sizes()) {
      refuse_state(text("has '{}' of shape {} for '{}', which needs {}", slot.name,
                        shape_text(slot.local), saved.name, shape_text(like)));
    }
    const auto here =
        like.options().device(like.is_cpu() ? at::kCPU : item.parameter.local.device());
    target = at::empty_like(like, here).copy_(swapper_ ? swapper_->read(slot.local) : slot.local);
    target = placed(item, static_cast<size_t>(found - names.begin()), target);
  }
  for (size_t s = 0; s < names.size() && !saved.slots.empty(); ++s) {
    if (!slots[s].defined() && fresh_slot(group, names[s], form).defined()) {
      refuse_state(text("has no '{}' for '{}'", names[s], saved.name));
    }
  }
  item.slots = std::move(slots);
}

}  // namespace accel
