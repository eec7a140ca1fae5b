#include "kernels/memory/stored_outputs.h"

#include <torch/library.h>

#include <algorithm>
#include <utility>

namespace accel {
namespace {

using torch::jit::Stack;

/// A dispatch key below autograd and autocast, and above fake tensors and the kernels. PyTorch has
/// kernels for views and in-place operators there.
constexpr c10::DispatchKey kStoreKey = c10::DispatchKey::ADInplaceOrView;

constexpr const char* kStoredOperators[] = {"mm",
                                            "addmm",
                                            "_scaled_mm",
                                            "convolution",
                                            "_scaled_dot_product_flash_attention_for_cpu",
                                            "_scaled_dot_product_flash_attention",
                                            "_scaled_dot_product_efficient_attention",
                                            "_scaled_dot_product_cudnn_attention"};

/// Views whose version counters are independent of their base's.
constexpr const char* kUntrackedViews[] = {"_unsafe_view", "unsafe_split.Tensor",
                                           "unsafe_split_with_sizes"};

thread_local StoredOutputsScope* scope_of_thread = nullptr;

/// An alias without autograd metadata that shares the version counter. The tensor itself will own
/// the graph, which owns the stored outputs.
at::Tensor without_graph(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return at::Tensor(impl.shallow_copy_and_detach(impl.version_counter(),
                                                 /*allow_tensor_metadata_change=*/true));
}

bool is_tensor(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined();
}

uint32_t version_of(const c10::IValue& tensor) {
  return tensor.toTensor().unsafeGetTensorImpl()->version_counter().current_version();
}

/// Whether the operator draws random numbers, which a second pass has to draw again.
bool drops_out(const c10::OperatorHandle& op, const Stack& stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "dropout_p") continue;
    return torch::jit::peek(stack, i, arguments.size()).toDouble() != 0;
  }
  return false;
}

void run_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kStoreKey), stack);
}

/// Shares the base's version counter with the views, so that in-place operators on them invalidate
/// its stored output.
void view_dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!StoredOutputsScope::current()) return run_kernel(op, keys, stack);
  const size_t arguments = op.schema().arguments().size();
  const at::Tensor viewed = torch::jit::peek(*stack, 0, arguments).toTensor();
  run_kernel(op, keys, stack);
  const auto share = [&](const at::Tensor& view) {
    view.unsafeGetTensorImpl()->set_version_counter(
        viewed.unsafeGetTensorImpl()->version_counter());
  };
  const c10::IValue& result = stack->back();
  if (result.isTensor()) return share(result.toTensor());
  for (const at::Tensor& view : result.toTensorVector()) share(view);
}

void stored_dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto compute = [&] { run_kernel(op, keys, stack); };
  StoredOutputsScope* const scope = StoredOutputsScope::current();
  if (!scope || drops_out(op, *stack)) return compute();
  scope->run(*stack, op.schema().arguments().size(), compute);
}

}  // namespace

void register_stored_operators() {
  static torch::Library library(torch::Library::IMPL, "aten", kStoreKey, __FILE__, __LINE__);
  static const bool done = [] {
    for (const char* const name : kStoredOperators) {
      library.impl(name, torch::CppFunction::makeFromBoxedFunction<&stored_dispatch>());
    }
    for (const char* const name : kUntrackedViews) {
      library.impl(name, torch::CppFunction::makeFromBoxedFunction<&view_dispatch>());
    }
    return true;
  }();
  (void)done;
}

StoredOutputsScope::StoredOutputsScope(StoredOutputs* outputs, Pass pass)
    : outputs_(outputs), pass_(pass), outer_(std::exchange(scope_of_thread, this)) {}

StoredOutputsScope::~StoredOutputsScope() {
  scope_of_thread = outer_;
}

StoredOutputsScope* StoredOutputsScope::current() {
  return scope_of_thread && scope_of_thread->outputs_ ? scope_of_thread : nullptr;
}

bool StoredOutputs::Output::is_unchanged() const {
  return !is_tensor(value) || version_of(value) == version;
}

bool StoredOutputsScope::take(Stack& stack, size_t arguments) {
  const size_t call = next_++;
  if (call >= outputs_->calls_.size()) return false;
  const StoredOutputs::Call stored = std::exchange(outputs_->calls_[call], {});
  const bool is_valid =
      !stored.empty() && std::ranges::all_of(stored, &StoredOutputs::Output::is_unchanged);
  if (!is_valid) return false;
  torch::jit::drop(stack, arguments);
  for (const StoredOutputs::Output& output : stored) stack.push_back(output.value);
  return true;
}

void StoredOutputsScope::store(const Stack& stack, size_t first) {
  StoredOutputs::Call& call = outputs_->calls_.emplace_back();
  for (size_t i = first; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (is_tensor(value)) {
      call.push_back({without_graph(value.toTensor()), version_of(value)});
    } else {
      call.push_back({value});
    }
  }
}

void StoredOutputsScope::run(Stack& stack, size_t arguments, c10::function_ref<void()> compute) {
  if (pass_ == Pass::kTake && take(stack, arguments)) return;
  const size_t below = stack.size() - arguments;
  {
    const StoredOutputsScope nothing(nullptr, pass_);
    compute();
  }
  if (pass_ == Pass::kStore) store(stack, below);
}

std::vector<at::Tensor> store_outputs(c10::function_ref<std::vector<at::Tensor>()> compute) {
  StoredOutputsScope* const scope = StoredOutputsScope::current();
  if (!scope) return compute();
  Stack stack;
  scope->run(stack, 0, [&] {
    for (at::Tensor& output : compute()) stack.emplace_back(std::move(output));
  });
  std::vector<at::Tensor> outputs;
  for (c10::IValue& output : stack) outputs.push_back(std::move(output).toTensor());
  return outputs;
}

at::Tensor store_output(c10::function_ref<at::Tensor()> compute) {
  return store_outputs([&] { return std::vector<at::Tensor>{compute()}; }).front();
}

}  // namespace accel
