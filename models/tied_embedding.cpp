#include "models/tied_embedding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "kernels/kernels.h"

namespace accel {
namespace {

/// Makes rows a whole gradient where no head's joined them, before anyone else sees it.
class WholeGradient final : public torch::autograd::FunctionPreHook {
 public:
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    const at::Tensor& gradient = gradients.at(0);
    return {gradient.defined() && gradient.is_sparse() ? gradient.to_dense() : gradient};
  }
};

/// Whether `table` now has a WholeGradient: it has place for one hook, which may be another's.
bool is_made_whole(const at::Tensor& table) {
  const auto& hooks = torch::autograd::impl::hooks(table);
  if (hooks.empty()) {
    torch::autograd::impl::add_hook(table, std::make_unique<WholeGradient>());
    return true;
  }
  return dynamic_cast<const WholeGradient*>(hooks.front().get()) != nullptr;
}

}  // namespace

at::Tensor tied_embedding(const at::Tensor& table, const at::Tensor& tokens) {
  // As if the rows had joined: they are as good as nothing beside the table.
  if (stands_for_fused()) return at::embedding(table.detach(), tokens).requires_grad_();
  const bool joins = kernels() == Kernels::kFused && table.is_cpu() && table.is_leaf() &&
                     table.requires_grad() && at::GradMode::is_enabled() && is_made_whole(table);
  return at::embedding(table, tokens, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                       /*sparse=*/joins);
}

}  // namespace accel
