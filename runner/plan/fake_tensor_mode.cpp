#include "runner/plan/fake_tensor_mode.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu_operators.h"
#include "runner/plan/fake_operators.h"
#include "runner/plan/fake_tensor.h"
#include "train/job/torch_setup.h"

namespace accel {
namespace {

using torch::jit::Stack;

/// A dispatch key below autograd and autocast and above every kernel, unused by libtorch itself.
constexpr c10::DispatchKey kFakeKey = c10::DispatchKey::Fake;

/// The found_inf tensor of a loss scaler: never set.
thread_local c10::Storage found_inf_of_thread;
/// Deadline of the thread's modes, and its length in seconds.
thread_local std::optional<std::chrono::steady_clock::time_point> end_of_thread;
thread_local double limit_of_thread = 0;
thread_local std::optional<int64_t> most_bytes_of_thread;

void check_time() {
  if (!end_of_thread || std::chrono::steady_clock::now() < *end_of_thread) return;
  throw Error(ExitCode::kOther,
              text("planning takes longer than {} s", show_number(limit_of_thread)),
              "'accel-run plan' has no time limit");
}

void check_memory() {
  if (!most_bytes_of_thread || meter_of_thread()->peak_bytes() <= *most_bytes_of_thread) return;
  throw MemoryLimitError(*most_bytes_of_thread);
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

/// Meta tensors for the arguments of an operator, and the storage that each represents.
class ShapeRun {
 public:
  at::Tensor stub(const at::Tensor& tensor) {
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
    for (const auto& [stub, tensor] : pairs_) visit(stub, tensor);
  }

  /// One of the arguments, or a new tensor.
  at::Tensor result(const at::Tensor& meta) const {
    for (const auto& [stub, tensor] : pairs_) {
      if (stub.is_same(meta)) return tensor;
    }
    return fake_tensor(meta.sizes(), meta.strides(), meta.scalar_type());
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

bool changes_only_arguments(const c10::FunctionSchema& schema) {
  return std::all_of(schema.returns().begin(), schema.returns().end(), [](const auto& value) {
    return value.alias_info() && value.alias_info()->isWrite();
  });
}

/// Resizes "out=" arguments to the result.
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

/// Whether an operator changes the shape of its argument but not its contents.
bool reshapes_in_place(const std::string& name) {
  static const std::vector<std::string> kNames = {
      "aten::as_strided_", "aten::squeeze_",  "aten::unsqueeze_", "aten::t_",
      "aten::transpose_",  "aten::swapdims_", "aten::swapaxes_",  "aten::detach_",
      "aten::set_",        "aten::set_data",  "aten::resize_",    "aten::resize_as_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Calls the operator's own kernel: one that only calls other operators, or that reads only shapes.
void on_kernel(const c10::OperatorHandle& op, Stack& stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

/// Returns the arguments that the operator writes to.
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

/// Applies the shape of the meta tensor to a written argument.
void resize_like(const at::Tensor& tensor, const at::Tensor& stub) {
  if (tensor.sizes() == stub.sizes()) return;
  const at::Tensor fresh = fake_tensor(stub.sizes(), stub.strides(), tensor.scalar_type());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(fresh.storage());
  impl->set_sizes_and_strides(fresh.sizes(), fresh.strides());
}

/// Infers the outputs' shapes on the meta device. False without a meta kernel for these arguments,
/// with the stack unchanged.
bool on_meta(const c10::OperatorHandle& op, Stack& stack) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  ShapeRun run;
  Stack inner(torch::jit::last(stack, arguments.size()).vec());
  for (size_t i = 0; i < arguments.size(); ++i) {
    change_tensors(inner[i], [&](const at::Tensor& tensor) { return run.stub(tensor); });
    if (arguments[i].name() == "device") inner[i] = at::Device(at::kMeta);
    if (arguments[i].name() == "generator") inner[i] = c10::IValue();
  }
  try {
    const c10::impl::ExcludeDispatchKeyGuard no_dry(kFakeKey);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &inner);
  } catch (const c10::Error&) {
    return false;
  }
  run.each([](const at::Tensor& stub, const at::Tensor& tensor) { resize_like(tensor, stub); });
  torch::jit::drop(stack, arguments.size());
  for (c10::IValue& value : inner) {
    change_tensors(value, [&](const at::Tensor& tensor) { return run.result(tensor); });
    stack.push_back(std::move(value));
  }
  return true;
}

/// Computes an operator on zeros, for lack of a shape function.
void for_real(const c10::OperatorHandle& op, Stack& stack) {
  {
    const c10::impl::ExcludeDispatchKeyGuard no_dry(kFakeKey);
    on_kernel(op, stack);
  }
  const size_t results = op.schema().returns().size();
  for (auto value = stack.end() - static_cast<ptrdiff_t>(results); value != stack.end(); ++value) {
    change_tensors(*value, [](const at::Tensor& t) { return fake_like(t); });
  }
}

/// item() of a fake tensor.
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

/// Records a matrix product of MKL in the meter.
void note_product(const std::string& name, const Stack& stack, size_t arguments) {
  const bool adds = name == "aten::addmm";
  if (!adds && name != "aten::mm") return;
  const auto in = torch::jit::last(stack, arguments);
  const at::Tensor &left = in[adds].toTensor(), &right = in[adds + 1].toTensor();
  if (left.scalar_type() != at::kFloat && left.scalar_type() != at::kDouble) return;
  meter_of_thread()->multiply(left.size(0), left.size(1), right.size(1), left.element_size());
}

/// Replaces the arguments by the operator's outputs.
void fake_results(const c10::OperatorHandle& op, Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  note_product(name, stack, schema.arguments().size());
  if (fake_output(name, stack, schema.arguments().size())) return;
  // It has no CPU kernel, but is not composite either.
  if (name == "aten::copy_") return skip(schema, stack);
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return on_kernel(op, stack);
  if (gives_view(schema) || reshapes_in_place(name)) return on_kernel(op, stack);
  if (changes_only_arguments(schema) && !resizes_outputs(schema)) return skip(schema, stack);
  if (!on_meta(op, stack)) for_real(op, stack);
}

/// Whether the operator is upcast to float32 for arguments of this type.
bool is_upcast(const std::string& name, const Stack& stack, const c10::FunctionSchema& schema) {
  const size_t arguments = schema.arguments().size();
  if (!fakes_fused() || arguments == 0) return false;
  const c10::IValue& first = torch::jit::last(stack, arguments)[0];
  return first.isTensor() && first.toTensor().defined() &&
         is_computed_wide(name, first.toTensor().scalar_type());
}

/// As compute_in_fp32(): float32 copies of the arguments live until the results exist.
void fake_upcast(const c10::OperatorHandle& op, Stack& stack) {
  const size_t arguments = op.schema().arguments().size();
  const Stack narrow(torch::jit::last(stack, arguments).vec());
  const at::ScalarType type = narrow[0].toTensor().scalar_type();
  Stack wide = narrow;
  for (c10::IValue& value : wide) {
    change_tensors(value, [&](const at::Tensor& tensor) {
      return tensor.scalar_type() == type
                 ? fake_tensor(tensor.sizes(), tensor.strides(), at::kFloat)
                 : tensor;
    });
  }
  Stack results = wide;
  fake_results(op, results);
  torch::jit::drop(stack, arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool stays =
        i > 0 && op.schema().name() == "aten::_scaled_dot_product_flash_attention_for_cpu";
    if (!stays) {
      change_tensors(results[i], [&](const at::Tensor& tensor) {
        return fake_tensor(tensor.sizes(), tensor.strides(), type);
      });
    }
    stack.push_back(std::move(results[i]));
  }
}

/// Bytes of the last `count` values' tensors.
double bytes_of(const Stack& stack, size_t count) {
  double bytes = 0;
  for (c10::IValue value : torch::jit::last(stack, count)) {
    change_tensors(value, [&](const at::Tensor& tensor) {
      bytes += static_cast<double>(tensor.nbytes());
      return tensor;
    });
  }
  return bytes;
}

/// Whether the operator reads and writes the elements of its tensors itself.
bool moves_memory(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  if (name == "aten::copy_") return true;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !gives_view(schema) &&
         !reshapes_in_place(name) && !name.starts_with("aten::empty");
}

/// Whether the operator overwrites its argument without reading it.
bool overwrites(const std::string& name) {
  return name == "aten::copy_" || name == "aten::fill_" || name == "aten::zero_";
}

void fake_dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  check_time();
  check_memory();
  if (name == "aten::_local_scalar_dense") return give_one(*stack);
  if (name == "aten::_amp_foreach_non_finite_check_and_unscale_") {
    found_inf_of_thread =
        torch::jit::last(*stack, schema.arguments().size())[1].toTensor().storage();
  }
  const size_t arguments = schema.arguments().size();
  const double flops = flops_of(name, torch::jit::last(*stack, arguments));
  const bool moves = flops == 0 && moves_memory(op);
  double bytes = moves ? bytes_of(*stack, arguments) : 0;
  is_upcast(name, *stack, schema) ? fake_upcast(op, *stack) : fake_results(op, *stack);
  if (moves && !overwrites(name)) bytes += bytes_of(*stack, schema.returns().size());
  meter_of_thread()->add_work(flops, bytes);
}

/// Registered once per process on first use: libtorch may not be loaded.
void register_once() {
  static torch::Library library(torch::Library::IMPL, "_", kFakeKey, __FILE__, __LINE__);
  static const bool done = [] {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fake_dispatch>());
    return true;
  }();
  (void)done;
}

}  // namespace

FakeTensorMode::FakeTensorMode(std::shared_ptr<WorkMeter> meter)
    : generator_(generator_state()), outer_(std::exchange(meter_of_thread(), std::move(meter))) {
  register_once();
  guard_.emplace(kFakeKey);
}

FakeTensorMode::~FakeTensorMode() {
  guard_.reset();
  found_inf_of_thread = {};
  meter_of_thread() = std::move(outer_);
  set_generator_state(generator_);
}

FakeTimeLimit::FakeTimeLimit(double seconds) {
  limit_of_thread = seconds;
  end_of_thread = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                      std::chrono::duration<double>(seconds));
}

FakeTimeLimit::~FakeTimeLimit() {
  end_of_thread.reset();
}

FakeMemoryLimit::FakeMemoryLimit(int64_t bytes) {
  most_bytes_of_thread = bytes;
}

FakeMemoryLimit::~FakeMemoryLimit() {
  most_bytes_of_thread.reset();
}

}  // namespace accel
