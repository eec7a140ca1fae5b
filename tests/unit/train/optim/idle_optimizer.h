// An optimizer that does nothing, for tests to derive theirs from.
#pragma once

#include <span>
#include <vector>

#include "core/api/optimizer.h"

namespace accel {

class IdleOptimizer : public Optimizer {
 public:
  void step() override {}
  void zero_grad() override {}
  std::vector<double> base_lrs() const override { return {1}; }
  void set_lrs(std::span<const double>) override {}
  std::vector<Parameter> parameters() const override { return {}; }
  OptimizerState state() const override { return {{{}}}; }
  int64_t pending_state_bytes() const override { return 0; }
  void load(const OptimizerState&) override {}
};

}  // namespace accel
