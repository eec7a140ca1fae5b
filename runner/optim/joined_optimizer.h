// Several optimizers as one, for those who save, load or give rates to all of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/optimizer.h"

namespace accel {

/// Their groups one after another. Each may be stepped alone.
class JoinedOptimizer final : public Optimizer {
 public:
  explicit JoinedOptimizer(std::vector<std::unique_ptr<Optimizer>> parts);

  /// Puts another one in the place of the `index`-th.
  void replace(size_t index, std::unique_ptr<Optimizer> part);

  void step() override;
  void zero_grad() override;
  std::vector<double> base_lrs() const override { return base_lrs_; }
  /// The same, until a part is replaced.
  std::span<const double> base_rates() const { return base_lrs_; }
  void set_lrs(std::span<const double> lrs) override;
  std::vector<NamedTensor> parameters() const override;
  OptimizerState state() const override;
  int64_t bytes_to_come() const override;
  void load(const OptimizerState& state) override;
  void reserve() override;

 private:
  /// Asks the parts for what stays as it is while they do.
  void ask_rates();

  std::vector<std::unique_ptr<Optimizer>> parts_;
  std::vector<double> base_lrs_;
  std::vector<size_t> groups_;  ///< of each part
};

}  // namespace accel
