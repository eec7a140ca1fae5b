// Several optimizers as one, to save, load and schedule them together.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/api/optimizer.h"

namespace accel {

/// Has their groups in order. Each may be stepped alone.
class JoinedOptimizer final : public Optimizer {
 public:
  explicit JoinedOptimizer(std::vector<std::unique_ptr<Optimizer>> parts);

  /// Replaces optimizer `index`.
  void replace(size_t index, std::unique_ptr<Optimizer> part);

  void step() override;
  void zero_grad() override;
  std::vector<double> base_lrs() const override { return base_lrs_; }
  /// Unchanged until an optimizer is replaced.
  std::span<const double> base_rates() const { return base_lrs_; }
  void set_lrs(std::span<const double> lrs) override;
  std::vector<Parameter> parameters() const override;
  OptimizerState state() const override;
  int64_t pending_state_bytes() const override;
  void load(const OptimizerState& state) override;
  void preallocate_state() override;

 private:
  /// Caches base rates and group counts of the optimizers.
  void ask_rates();

  std::vector<std::unique_ptr<Optimizer>> parts_;
  std::vector<double> base_lrs_;
  std::vector<size_t> groups_;  ///< of each optimizer
};

}  // namespace accel
