#include "runner/optim/joined_optimizer.h"

#include "runner/optim/grouped_optimizer.h"

namespace accel {

void JoinedOptimizer::step() {
  for (const auto& part : parts_) part->step();
}

void JoinedOptimizer::zero_grad() {
  for (const auto& part : parts_) part->zero_grad();
}

std::vector<double> JoinedOptimizer::base_lrs() const {
  std::vector<double> out;
  for (const auto& part : parts_) {
    const std::vector<double> rates = part->base_lrs();
    out.insert(out.end(), rates.begin(), rates.end());
  }
  return out;
}

void JoinedOptimizer::set_lrs(std::span<const double> lrs) {
  for (const auto& part : parts_) {
    const size_t groups = part->base_lrs().size();
    part->set_lrs(lrs.first(groups));
    lrs = lrs.subspan(groups);
  }
}

std::vector<NamedTensor> JoinedOptimizer::parameters() const {
  std::vector<NamedTensor> out;
  for (const auto& part : parts_) {
    const std::vector<NamedTensor> own = part->parameters();
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

OptimizerState JoinedOptimizer::state() const {
  OptimizerState out;
  for (const auto& part : parts_) {
    for (OptimizerState::Group& group : part->state().groups) {
      out.groups.push_back(std::move(group));
    }
  }
  return out;
}

int64_t JoinedOptimizer::bytes_to_come() const {
  int64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->bytes_to_come();
  return bytes;
}

void JoinedOptimizer::load(const OptimizerState& state) {
  check_group_count(state, base_lrs().size());
  auto next = state.groups.begin();
  for (const auto& part : parts_) {
    const auto end = next + static_cast<ptrdiff_t>(part->base_lrs().size());
    part->load({.groups = {next, end}});
    next = end;
  }
}

}  // namespace accel
