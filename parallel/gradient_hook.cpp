#include "parallel/gradient_hook.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace accel {
namespace {

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor&) override { call_(); }

 private:
  std::function<void()> call_;
};

}  // namespace

void set_gradient_hook(const at::Tensor& parameter, std::function<void()> call) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                 std::make_unique<GradientHook>(std::move(call)));
}

void clear_gradient_hook(const at::Tensor& parameter) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

}  // namespace accel
