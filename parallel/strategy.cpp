#include "parallel/strategy.h"

#include "parallel/gradients.h"

namespace accel {
namespace {

class Single final : public Strategy {};

}  // namespace

void Strategy::run_passes(MicroBatchPasses& passes) {
  const size_t count = passes.count();
  for (size_t k = 0; k < count; ++k) {
    before_pass(k + 1 == count);
    passes.run(micro_batch_at(k));
    after_pass();
  }
}

void Strategy::run_forward(const std::vector<Batch>& batches,
                           const std::function<void(size_t i)>& pass) {
  for (size_t i = 0; i < batches.size(); ++i) pass(i);
}

at::Tensor Strategy::gradient_norm(std::span<const Parameter> parameters) const {
  return accel::gradient_norm(parameters);
}

at::Tensor Strategy::clip_grad_norm(std::span<const Parameter> parameters, double max_norm) const {
  at::Tensor norm = gradient_norm(parameters);
  change_gradients(parameters, [norm, max_norm](std::span<const Parameter> some) {
    scale_to_norm(some, norm, max_norm);
  });
  return norm;
}

std::unique_ptr<Strategy> make_single() {
  return std::make_unique<Single>();
}

}  // namespace accel
