#include "parallel/tensor_strategy.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "parallel/row_share.h"
#include "parallel/strategy_around.h"

namespace accel {
namespace {

bool is_of_tensor_axis(const Placement& placement) {
  return placement.axis == Axis::kTensor;
}

bool is_divided(const Parameter& parameter) {
  return std::ranges::any_of(parameter.placements, is_of_tensor_axis);
}

/// The parameter as the ranks of the other axes know it: this rank's share is all of it.
Parameter without_tensor_axis(Parameter parameter, const Communicator& tensor) {
  for (const Placement& placement : parameter.placements) {
    if (!is_of_tensor_axis(placement)) continue;
    int64_t& size = parameter.global.at(static_cast<size_t>(placement.dim));
    size =
        placement.blocks * row_share(size / placement.blocks, tensor.world(), tensor.rank()).count;
  }
  std::erase_if(parameter.placements, is_of_tensor_axis);
  if (parameter.is_replicated()) parameter.global.clear();
  return parameter;
}

class TensorStrategy final : public StrategyAround {
 public:
  TensorStrategy(std::unique_ptr<Strategy> data, const std::vector<Parameter>& partial,
                 std::shared_ptr<Communicator> tensor)
      : StrategyAround(std::move(data)),
        partial_(inner().shards_of(partial)),
        tensor_(std::move(tensor)) {}

  void finish() override {
    inner().finish();
    sum_partial_gradients();
  }

  at::Tensor gradient_norm(std::span<const Parameter> parameters) const override;

  void reduce_found_inf(const at::Tensor& found_inf) const override {
    inner().reduce_found_inf(found_inf);
    tensor_->all_reduce(found_inf, ReduceOp::kMax, "overflow of gradients");
  }

 private:
  void sum_partial_gradients() const;

  std::vector<Parameter> partial_;  ///< as the optimizer has them
  std::shared_ptr<Communicator> tensor_;
};

void TensorStrategy::sum_partial_gradients() const {
  const c10::NoGradGuard no_grad;
  std::map<at::ScalarType, std::vector<at::Tensor>> gradients;
  for (const Parameter& item : partial_) {
    const at::Tensor& gradient = item.local.grad();
    if (gradient.defined()) gradients[gradient.scalar_type()].push_back(gradient);
  }
  for (const auto& [type, list] : gradients) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& gradient : list) flat.push_back(gradient.reshape({-1}));
    const at::Tensor sum = at::cat(flat);
    tensor_->all_reduce(sum, ReduceOp::kSum, "gradients of whole parameters over tp");
    int64_t offset = 0;
    for (const at::Tensor& gradient : list) {
      gradient.copy_(sum.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
      offset += gradient.numel();
    }
  }
}

at::Tensor TensorStrategy::gradient_norm(std::span<const Parameter> parameters) const {
  const c10::NoGradGuard no_grad;
  std::vector<Parameter> divided, whole;
  for (const Parameter& item : parameters) {
    (is_divided(item) ? divided : whole).push_back(without_tensor_axis(item, *tensor_));
  }
  const at::Device device = parameters.empty() ? at::kCPU : parameters.front().local.device();
  const auto square_of = [&](const std::vector<Parameter>& some) {
    return inner().gradient_norm(some).to(device, at::kDouble).square();
  };
  const at::Tensor squares = square_of(divided);
  tensor_->all_reduce(squares, ReduceOp::kSum, "gradient norm");
  return squares.add(square_of(whole)).sqrt().to(at::kFloat);
}

}  // namespace

std::unique_ptr<Strategy> make_tensor_parallel(std::unique_ptr<Strategy> data,
                                               const std::vector<Parameter>& partial,
                                               std::shared_ptr<Communicator> tensor) {
  return std::make_unique<TensorStrategy>(std::move(data), partial, std::move(tensor));
}

}  // namespace accel
