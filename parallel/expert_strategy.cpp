#include "parallel/expert_strategy.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "parallel/strategy_around.h"

namespace accel {
namespace {

/// The rank that has the parameter's expert; null: no expert has it.
std::optional<int64_t> owner_of(const Parameter& parameter) {
  for (const Placement& placement : parameter.placements) {
    if (placement.axis == Axis::kExpert) return placement.owner;
  }
  return std::nullopt;
}

/// Around the strategy of the others.
class ExpertStrategy final : public StrategyAround {
 public:
  ExpertStrategy(ExpertStrategies strategies, std::vector<Parameter> parameters,
                 std::shared_ptr<Communicator> group)
      : StrategyAround(std::move(strategies.others)),
        experts_(std::move(strategies.experts)),
        group_(std::move(group)) {
    std::erase_if(parameters, [](const Parameter& item) { return !owner_of(item); });
    divided_ = shards_of(std::move(parameters));
  }

  void begin(const StepLayout& layout) override {
    inner().begin(layout);
    if (experts_) experts_->begin(layout);
  }
  void run_passes(MicroBatchPasses& passes) override {
    experts_ ? Strategy::run_passes(passes) : inner().run_passes(passes);
  }
  void before_pass(bool last) override {
    inner().before_pass(last);
    if (experts_) experts_->before_pass(last);
  }
  void after_pass() override {
    inner().after_pass();
    if (experts_) experts_->after_pass();
  }
  void finish() override {
    inner().finish();
    if (experts_) experts_->finish();
    share_gradient_flags();
  }

  at::Tensor gradient_norm(std::span<const Parameter> parameters) const override;

  void reduce_found_inf(const at::Tensor& found_inf) const override {
    inner().reduce_found_inf(found_inf);
    group_->all_reduce(found_inf, ReduceOp::kMax, "overflow of gradients");
  }

 private:
  void share_gradient_flags() const;
  bool owns(const Parameter& parameter) const { return owner_of(parameter) == group_->rank(); }

  std::unique_ptr<Strategy> experts_;
  std::vector<Parameter> divided_;  ///< all parameters of experts, as the optimizer has them
  std::shared_ptr<Communicator> group_;
};

void ExpertStrategy::share_gradient_flags() const {
  const c10::NoGradGuard no_grad;
  std::vector<int32_t> flags(divided_.size());
  for (size_t i = 0; i < divided_.size(); ++i) {
    flags[i] = owns(divided_[i]) && divided_[i].local.grad().defined();
  }
  const auto count = static_cast<int64_t>(flags.size());
  group_->all_reduce(at::from_blob(flags.data(), {count}, at::kInt), ReduceOp::kMax,
                     "which gradients there are");
  for (size_t i = 0; i < divided_.size(); ++i) {
    if (owns(divided_[i]) || flags[i] == 0) continue;
    at::Tensor share = divided_[i].local;
    share.mutable_grad() = at::empty_like(share, share.options().requires_grad(false));
  }
}

at::Tensor ExpertStrategy::gradient_norm(std::span<const Parameter> parameters) const {
  const c10::NoGradGuard no_grad;
  std::vector<Parameter> own, others;
  for (const Parameter& item : parameters) {
    if (!owner_of(item)) {
      others.push_back(item);
    } else if (owns(item)) {
      own.push_back(item);
    }
  }
  const at::Device device = parameters.empty() ? at::kCPU : parameters.front().local.device();
  const auto square_of = [&](const Strategy& strategy, const std::vector<Parameter>& some) {
    return strategy.gradient_norm(some).to(device, at::kDouble).square();
  };
  const at::Tensor squares = square_of(experts_ ? *experts_ : inner(), own);
  group_->all_reduce(squares, ReduceOp::kSum, "gradient norm");
  return squares.add(square_of(inner(), others)).sqrt().to(at::kFloat);
}

}  // namespace

std::unique_ptr<Strategy> make_expert_parallel(ExpertStrategies strategies,
                                               const std::vector<Parameter>& parameters,
                                               std::shared_ptr<Communicator> group) {
  return std::make_unique<ExpertStrategy>(std::move(strategies), parameters, std::move(group));
}

}  // namespace accel
