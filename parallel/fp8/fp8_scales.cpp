#include "parallel/fp8/fp8_scales.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace accel {

void Fp8Scales::add(const UnitGroup& units) {
  for (const auto& unit : units.units()) {
    if (unit->num_fp8_weights() > 0) units_.push_back(unit.get());
  }
}

void Fp8Scales::update() {
  if (is_current_) return;
  is_current_ = true;
  if (units_.empty()) return;
  const c10::NoGradGuard no_grad;
  // In the order of the units, which all ranks share.
  std::vector<std::pair<Communicator*, std::vector<ShardUnit*>>> groups;
  for (ShardUnit* const unit : units_) {
    auto found = groups.begin();
    while (found != groups.end() && found->first != &unit->group()) ++found;
    if (found == groups.end()) found = groups.insert(found, {&unit->group(), {}});
    found->second.push_back(unit);
  }
  for (const auto& [group, units] : groups) {
    std::vector<at::Tensor> parts;
    for (const ShardUnit* const unit : units) parts.push_back(unit->fp8_amaxes());
    const at::Tensor amaxes = at::cat(parts);
    group->all_reduce(amaxes, ReduceOp::kMax, "the magnitudes of fp8 weights");
    int64_t first = 0;
    for (ShardUnit* const unit : units) {
      unit->set_fp8_amaxes(amaxes.narrow(0, first, unit->num_fp8_weights()));
      first += unit->num_fp8_weights();
    }
  }
}

}  // namespace accel
