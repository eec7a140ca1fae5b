#include "models/layers/tied_embedding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_sparse_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/choice.h"

namespace accel {
namespace {

using torch::autograd::variable_list;

/// Row gradients of the embedding, kept until the gradient of the table arrives.
class WaitingRows final : public torch::CustomClassHolder {
 public:
  void add(at::Tensor rows) {
    const int pass = torch::autograd::get_current_graph_task_id();
    if (std::exchange(pass_, pass) != pass) rows_.clear();  // of an aborted pass
    rows_.push_back(std::move(rows));
  }
  std::vector<at::Tensor> take() { return std::exchange(rows_, {}); }

 private:
  int pass_ = -1;
  std::vector<at::Tensor> rows_;
};
using WaitingRowsPtr = c10::intrusive_ptr<WaitingRows>;

/// Whether `tensor` can be modified unobserved; it may be a view of a tensor that only it holds,
/// such as a transposed product.
bool is_sole_owner(const at::Tensor& tensor) {
  if (tensor.use_count() != 1 || !tensor.is_non_overlapping_and_dense()) return false;
  const size_t of_storage = tensor.storage().use_count();
  if (!tensor.is_view()) return of_storage == 1;
  return of_storage == 2 && tensor._base().use_count() == 1;
}

at::Tensor joined(at::Tensor whole, const at::Tensor& rows) {
  if (!whole.defined()) return rows.to_dense();
  return is_sole_owner(whole) ? whole.add_(rows) : whole.add(rows);
}

/// Hook on the table's gradient: adds the kept row gradients. Called with the head's gradient or
/// with none, after all rows of the backward pass are kept.
class JoinRows final : public torch::autograd::FunctionPreHook {
 public:
  variable_list operator()(const variable_list& gradients) override {
    const at::NoGradGuard no_grad;
    // The engine discards the input list in favor of the returned one.
    at::Tensor whole = std::move(const_cast<at::Tensor&>(gradients.at(0)));
    for (const at::Tensor& rows : waiting_->take()) {
      whole = joined(std::move(whole), rows);
    }
    return {std::move(whole)};
  }
  const WaitingRowsPtr& waiting() const { return waiting_; }

 private:
  WaitingRowsPtr waiting_ = c10::make_intrusive<WaitingRows>();
};

/// The hook of `table`, which has room for one; null if another hook is installed.
WaitingRowsPtr waiting_rows(const at::Tensor& table) {
  const auto& hooks = torch::autograd::impl::hooks(table);
  if (hooks.empty()) torch::autograd::impl::add_hook(table, std::make_unique<JoinRows>());
  const auto* own = dynamic_cast<const JoinRows*>(hooks.front().get());
  return own ? own->waiting() : nullptr;
}

class LookUp final : public torch::autograd::Function<LookUp> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& table,
                            const at::Tensor& tokens, int64_t padding,
                            const WaitingRowsPtr& waiting) {
    context->save_for_backward({tokens});
    context->saved_data["vocab"] = table.size(0);
    context->saved_data["padding"] = padding;
    context->saved_data["waiting"] = at::IValue::make_capsule(waiting);
    return at::embedding(table, tokens);
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto waiting = context->saved_data["waiting"].toCapsule();
    static_cast<WaitingRows&>(*waiting).add(at::embedding_sparse_backward(
        gradients[0], context->get_saved_variables()[0], context->saved_data["vocab"].toInt(),
        context->saved_data["padding"].toInt(), /*scale_grad_by_freq=*/false));
    return {at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor tied_embedding(const at::Tensor& table, const at::Tensor& tokens, int64_t padding) {
  // For memory estimates: the rows are negligible beside the table.
  if (fakes_fused()) return at::embedding(table.detach(), tokens).requires_grad_();
  const bool joins = kernels() == Kernels::kFused && table.is_cpu() && table.is_leaf() &&
                     table.requires_grad() && at::GradMode::is_enabled();
  const WaitingRowsPtr waiting = joins ? waiting_rows(table) : nullptr;
  return waiting ? LookUp::apply(table, tokens, padding, waiting)
                 : at::embedding(table, tokens, padding);
}

}  // namespace accel
