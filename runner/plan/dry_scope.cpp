#include "runner/plan/dry_scope.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/scalar.h"
#include "kernels/cpu_operators.h"
#include "kernels/widening.h"
#include "runner/job/torch_setup.h"
#include "runner/plan/dry_operators.h"
#include "runner/plan/dry_tensor.h"

namespace accel {
namespace {

using torch::jit::Stack;

/// Lies below autograd and autocast and above every kernel, and libtorch itself does not use it.
constexpr c10::DispatchKey kDryKey = c10::DispatchKey::Fake;

thread_local std::shared_ptr<WorkMeter> meter_of_thread;
/// Where a loss scaler looks whether anything has overflowed: nothing ever has.
thread_local c10::Storage found_inf_of_thread;
/// When the thread's scopes are to end, and how long they had.
thread_local std::optional<std::chrono::steady_clock::time_point> end_of_thread;
thread_local double limit_of_thread = 0;

void check_time() {
  if (!end_of_thread || std::chrono::steady_clock::now() < *end_of_thread) return;
  throw Error(ExitCode::kOther, "it takes longer than " + show_number(limit_of_thread) + " s",
              "'accel-run plan' takes the time it needs");
}

/// Calls `change` with each tensor in a value.
template <class Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = change(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) tensor = tensor.defined() ? change(tensor) : tensor;
    value = std::move(tensors);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      tensors.push_back(tensor && tensor->defined() ? change(*tensor) : tensor);
    }
    value = std::move(tensors);
  }
}

/// Where the shapes of an operator's outputs are found: stand-ins of tensors on the meta device,
/// and which memory each stands for.
class ShapeRun {
 public:
  at::Tensor stand_in(const at::Tensor& tensor) {
    at::Tensor meta =
        at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      meta.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    pairs_.emplace_back(meta, tensor);
    return meta;
  }

  template <class Visit>
  void each(const Visit& visit) const {
    for (const auto& [stand_in, tensor] : pairs_) visit(stand_in, tensor);
  }

  /// An argument of the operator's own, or a new tensor.
  at::Tensor result(const at::Tensor& meta) const {
    for (const auto& [stand_in, tensor] : pairs_) {
      if (stand_in.is_same(meta)) return tensor;
    }
    return dry_tensor(meta.sizes(), meta.strides(), meta.scalar_type());
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

bool changes_only_arguments(const c10::FunctionSchema& schema) {
  return std::all_of(schema.returns().begin(), schema.returns().end(), [](const auto& value) {
    return value.alias_info() && value.alias_info()->isWrite();
  });
}

/// Of "out=" arguments, which get the size of what is written to them.
bool resizes_outputs(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const auto& value) {
    return value.kwarg_only() && value.alias_info() && value.alias_info()->isWrite();
  });
}

bool gives_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& value) {
    return value.alias_info() && !value.alias_info()->isWrite();
  });
}

/// Changes the shape of its argument and not its contents.
bool reshapes_in_place(const std::string& name) {
  static const std::vector<std::string> kNames = {
      "aten::as_strided_", "aten::squeeze_",  "aten::unsqueeze_", "aten::t_",
      "aten::transpose_",  "aten::swapdims_", "aten::swapaxes_",  "aten::detach_",
      "aten::set_",        "aten::set_data",  "aten::resize_",    "aten::resize_as_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Lets the operator's own kernel work: one that only calls other operators, which come back here,
/// or that looks at shapes alone.
void on_kernel(const c10::OperatorHandle& op, Stack& stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

/// Returns the arguments that it would have written to.
void skip(const c10::FunctionSchema& schema, Stack& stack) {
  const auto arguments = torch::jit::last(stack, schema.arguments().size());
  std::vector<c10::IValue> results;
  for (const c10::Argument& result : schema.returns()) {
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      if (!alias || alias->beforeSets() != result.alias_info()->beforeSets()) continue;
      results.push_back(arguments[i]);
      break;
    }
  }
  torch::jit::drop(stack, schema.arguments().size());
  for (c10::IValue& result : results) stack.push_back(std::move(result));
}

/// Gives an argument that is written to the shape its stand-in was given.
void resize_like(const at::Tensor& tensor, const at::Tensor& stand_in) {
  if (tensor.sizes() == stand_in.sizes()) return;
  const at::Tensor fresh = dry_tensor(stand_in.sizes(), stand_in.strides(), tensor.scalar_type());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(fresh.storage());
  impl->set_sizes_and_strides(fresh.sizes(), fresh.strides());
}

/// Finds the outputs' shapes on the meta device. False: it has no kernel there for these arguments,
/// and the stack is as it was.
bool on_meta(const c10::OperatorHandle& op, Stack& stack) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  ShapeRun run;
  Stack inner(torch::jit::last(stack, arguments.size()).vec());
  for (size_t i = 0; i < arguments.size(); ++i) {
    change_tensors(inner[i], [&](const at::Tensor& tensor) { return run.stand_in(tensor); });
    if (arguments[i].name() == "device") inner[i] = at::Device(at::kMeta);
    if (arguments[i].name() == "generator") inner[i] = c10::IValue();
  }
  try {
    const c10::impl::ExcludeDispatchKeyGuard no_dry(kDryKey);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &inner);
  } catch (const c10::Error&) {
    return false;
  }
  run.each(
      [](const at::Tensor& stand_in, const at::Tensor& tensor) { resize_like(tensor, stand_in); });
  torch::jit::drop(stack, arguments.size());
  for (c10::IValue& value : inner) {
    change_tensors(value, [&](const at::Tensor& tensor) { return run.result(tensor); });
    stack.push_back(std::move(value));
  }
  return true;
}

/// Computes, on zeros, what has no other way to tell its outputs' shapes.
void for_real(const c10::OperatorHandle& op, Stack& stack) {
  {
    const c10::impl::ExcludeDispatchKeyGuard no_dry(kDryKey);
    on_kernel(op, stack);
  }
  const size_t results = op.schema().returns().size();
  for (auto value = stack.end() - static_cast<ptrdiff_t>(results); value != stack.end(); ++value) {
    change_tensors(*value, [](const at::Tensor& t) { return dry_like(t); });
  }
}

/// One number of a tensor, which nobody knows.
void give_one(Stack& stack) {
  const at::Tensor tensor = torch::jit::pop(stack).toTensor();
  const at::ScalarType type = tensor.scalar_type();
  if (found_inf_of_thread && tensor.storage().is_alias_of(found_inf_of_thread)) {
    stack.emplace_back(0.0);
  } else if (type == at::kBool) {
    stack.emplace_back(true);
  } else if (at::isIntegralType(type, false)) {
    stack.emplace_back(int64_t{1});
  } else {
    stack.emplace_back(1.0);
  }
}

/// Tells the meter of a product that MKL computes.
void note_product(const std::string& name, const Stack& stack, size_t arguments) {
  const bool adds = name == "aten::addmm";
  if (!adds && name != "aten::mm") return;
  const auto in = torch::jit::last(stack, arguments);
  const at::Tensor &left = in[adds].toTensor(), &right = in[adds + 1].toTensor();
  if (left.scalar_type() != at::kFloat && left.scalar_type() != at::kDouble) return;
  meter_of_thread->multiply(left.size(0), left.size(1), right.size(1), left.element_size());
}

/// Puts what the operator would give in the place of its arguments.
void dry_results(const c10::OperatorHandle& op, Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  note_product(name, stack, schema.arguments().size());
  if (dry_output(name, stack, schema.arguments().size())) return;
  // It has no kernel of its own for the CPU, and yet is none that only calls other operators.
  if (name == "aten::copy_") return skip(schema, stack);
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return on_kernel(op, stack);
  if (gives_view(schema) || reshapes_in_place(name)) return on_kernel(op, stack);
  if (changes_only_arguments(schema) && !resizes_outputs(schema)) return skip(schema, stack);
  if (!on_meta(op, stack)) for_real(op, stack);
}

/// Whether it is computed in float32 for arguments of the first one's type.
bool is_widened(const std::string& name, const Stack& stack, const c10::FunctionSchema& schema) {
  const size_t arguments = schema.arguments().size();
  if (!stands_for_fused() || arguments == 0) return false;
  const c10::IValue& first = torch::jit::last(stack, arguments)[0];
  return first.isTensor() && first.toTensor().defined() &&
         is_computed_wide(name, first.toTensor().scalar_type());
}

/// As computed_wide(): with the arguments in float32 beside them until there are results.
void dry_wide(const c10::OperatorHandle& op, Stack& stack) {
  const size_t arguments = op.schema().arguments().size();
  const Stack narrow(torch::jit::last(stack, arguments).vec());
  const at::ScalarType type = narrow[0].toTensor().scalar_type();
  Stack wide = narrow;
  for (c10::IValue& value : wide) {
    change_tensors(value, [&](const at::Tensor& tensor) {
      return tensor.scalar_type() == type ? dry_tensor(tensor.sizes(), tensor.strides(), at::kFloat)
                                          : tensor;
    });
  }
  Stack results = wide;
  dry_results(op, results);
  torch::jit::drop(stack, arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool stays =
        i > 0 && op.schema().name() == "aten::_scaled_dot_product_flash_attention_for_cpu";
    if (!stays) {
      change_tensors(results[i], [&](const at::Tensor& tensor) {
        return dry_tensor(tensor.sizes(), tensor.strides(), type);
      });
    }
    stack.push_back(std::move(results[i]));
  }
}

void dry_call(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  check_time();
  if (name == "aten::_local_scalar_dense") return give_one(*stack);
  if (name == "aten::_amp_foreach_non_finite_check_and_unscale_") {
    found_inf_of_thread =
        torch::jit::last(*stack, schema.arguments().size())[1].toTensor().storage();
  }
  meter_of_thread->add_flops(flops_of(name, torch::jit::last(*stack, schema.arguments().size())));
  is_widened(name, *stack, schema) ? dry_wide(op, *stack) : dry_results(op, *stack);
}

/// Once in a process, and only when it is wanted: libtorch may not be loaded.
void register_once() {
  static torch::Library library(torch::Library::IMPL, "_", kDryKey, __FILE__, __LINE__);
  static const bool done = [] {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&dry_call>());
    return true;
  }();
  (void)done;
}

}  // namespace

int64_t WorkMeter::packing_bytes() const {
  return std::accumulate(packing_.begin(), packing_.end(), int64_t{0});
}

/// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008: both matrices
/// are copied in blocks, the wide one once for all threads or its part for each. The sizes are
/// those that MKL asked for on processors with AVX-512. It keeps what it had, and takes more when
/// nothing of that is large enough.
void WorkMeter::multiply(int64_t m, int64_t k, int64_t n, int64_t bytes) {
  constexpr int64_t kLeastWork = 1 << 18;  // multiplications that are worth it
  constexpr int64_t kBlock = 4'598'328;    // bytes, of the narrow matrix and tables
  constexpr int64_t kDepth = 384, kWidth = 9984, kLeastShared = 1000;
  if (m < 2 || m * k * n < kLeastWork) return;
  const int64_t threads = at::get_num_threads();
  const bool is_shared = n >= kLeastShared;
  const int64_t columns = is_shared ? std::min(n, kWidth * threads) : (n + threads - 1) / threads;
  const int64_t size = kBlock + std::min(k, kDepth) * columns * bytes;
  const auto there =
      std::count_if(packing_.begin(), packing_.end(), [&](int64_t kept) { return kept >= size; });
  for (int64_t i = there; i < (is_shared ? 1 : threads); ++i) packing_.push_back(size);
}

BlockHeap::Block WorkMeter::take(int64_t bytes) {
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return *heap_of(bytes).take(bytes);
}

void WorkMeter::give_back(BlockHeap::Block block, int64_t bytes) {
  live_ -= bytes;
  heap_of(bytes).give_back(block);
}

DryScope::DryScope(std::shared_ptr<WorkMeter> meter)
    : generator_(generator_state()), outer_(std::exchange(meter_of_thread, std::move(meter))) {
  register_once();
  guard_.emplace(kDryKey);
}

const std::shared_ptr<WorkMeter>& DryScope::meter() {
  return meter_of_thread;
}

DryScope::~DryScope() {
  guard_.reset();
  found_inf_of_thread = {};
  meter_of_thread = std::move(outer_);
  set_generator_state(generator_);
}

DryTimeLimit::DryTimeLimit(double seconds) {
  limit_of_thread = seconds;
  end_of_thread = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                      std::chrono::duration<double>(seconds));
}

DryTimeLimit::~DryTimeLimit() {
  end_of_thread.reset();
}

}  // namespace accel
