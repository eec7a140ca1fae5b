#include "train/optim/joined_optimizer.h"

#include <iterator>
#include <stdexcept>
#include <string>

#include "core/base/text.h"
#include "train/optim/grouped_optimizer.h"

namespace accel {

JoinedOptimizer::JoinedOptimizer(std::vector<std::unique_ptr<Optimizer>> parts)
    : parts_(std::move(parts)) {
  ask_rates();
}

void JoinedOptimizer::replace(size_t index, std::unique_ptr<Optimizer> part) {
  parts_[index] = std::move(part);
  ask_rates();
}

void JoinedOptimizer::ask_rates() {
  base_lrs_.clear();
  groups_.clear();
  for (const auto& part : parts_) {
    const std::vector<double> rates = part->base_lrs();
    base_lrs_.insert(base_lrs_.end(), rates.begin(), rates.end());
    groups_.push_back(rates.size());
  }
}

void JoinedOptimizer::step() {
  for (const auto& part : parts_) part->step();
}

void JoinedOptimizer::zero_grad() {
  for (const auto& part : parts_) part->zero_grad();
}

void JoinedOptimizer::set_lrs(std::span<const double> lrs) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->set_lrs(lrs.first(groups_[i]));
    lrs = lrs.subspan(groups_[i]);
  }
}

std::vector<Parameter> JoinedOptimizer::parameters() const {
  std::vector<Parameter> out;
  for (const auto& part : parts_) {
    const std::vector<Parameter> own = part->parameters();
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

OptimizerState JoinedOptimizer::state() const {
  OptimizerState out;
  for (size_t i = 0; i < parts_.size(); ++i) {
    OptimizerState own = parts_[i]->state();
    if (own.groups.size() != groups_[i]) {
      throw std::logic_error(text("an optimizer's state() has {} groups and its base_lrs() {}",
                                  own.groups.size(), groups_[i]));
    }
    std::move(own.groups.begin(), own.groups.end(), std::back_inserter(out.groups));
  }
  return out;
}

int64_t JoinedOptimizer::pending_state_bytes() const {
  int64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->pending_state_bytes();
  return bytes;
}

void JoinedOptimizer::load(const OptimizerState& state) {
  check_group_count(state, base_lrs_.size());
  auto next = state.groups.begin();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto end = next + static_cast<ptrdiff_t>(groups_[i]);
    parts_[i]->load({.groups = {next, end}});
    next = end;
  }
}

void JoinedOptimizer::preallocate_state() {
  for (const auto& part : parts_) part->preallocate_state();
}

}  // namespace accel
