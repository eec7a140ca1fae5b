#include "parallel/unit_group.h"

#include <algorithm>

namespace accel {
namespace {

bool is_of_expert(const Parameter& parameter) {
  return std::ranges::any_of(parameter.placements, [](const Placement& placement) {
    return placement.axis == Axis::kExpert;
  });
}

}  // namespace

UnitGroup::UnitGroup(const std::vector<Parameter>& parameters, const CastWeights& cast,
                     const Mesh& mesh, const ReduceOptions& reduce, const ShardHome& home) {
  std::vector<Parameter> experts, others;
  for (const Parameter& item : parameters) (is_of_expert(item) ? experts : others).push_back(item);
  const auto add = [&](const std::vector<Parameter>& list, const ShardGroups& groups) {
    units_.push_back(std::make_unique<ShardUnit>(list, cast, groups, reduce, home));
    const ShardUnit& unit = *units_.back();
    shards_.insert(shards_.end(), unit.shards().begin(), unit.shards().end());
    trained_.insert(trained_.end(), unit.trained().begin(), unit.trained().end());
  };
  add(others, {mesh.shard.get(), mesh.replicate.get()});
  if (experts.empty()) return;
  add(experts, {mesh.expert_shard.get(), mesh.expert_replicate.get(), Axis::kExpertShard});
}

void UnitGroup::on_gradient(size_t i) {
  const size_t first = units_.front()->trained().size();
  i < first ? units_.front()->on_gradient(i) : units_.back()->on_gradient(i - first);
}

Gradients UnitGroup::take_gradients() {
  Gradients all;
  for (const auto& unit : units_) {
    for (at::Tensor& gradient : unit->take_gradients()) all.push_back(std::move(gradient));
  }
  return all;
}

void UnitGroup::put_gradients(const Gradients& gradients) {
  auto next = gradients.begin();
  for (const auto& unit : units_) {
    const auto end = next + static_cast<ptrdiff_t>(unit->trained().size());
    unit->put_gradients({next, end});
    next = end;
  }
}

std::vector<at::Tensor> UnitGroup::gradient_squares() const {
  std::vector<at::Tensor> all;
  for (const auto& unit : units_) {
    all.insert(all.end(), unit->gradient_squares().begin(), unit->gradient_squares().end());
  }
  return all;
}

}  // namespace accel
