#include "kernels/memory/deferred_init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/choice.h"
#include "kernels/memory/skip_init.h"

namespace accel {
namespace {

using torch::jit::Stack;

/// A dispatch key above autograd, reserved for this purpose and unused by libtorch itself.
constexpr c10::DispatchKey kDeferredKey = c10::DispatchKey::DeferredInit;

/// Type, sizes and strides of a tensor without its storage.
struct Layout {
  explicit Layout(const at::Tensor& tensor)
      : type(tensor.scalar_type()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        offset(tensor.storage_offset()) {}

  at::Tensor in(const c10::Storage& storage) const {
    return at::empty({0}, at::dtype(type)).set_(storage, offset, sizes, strides);
  }
  bool operator==(const Layout&) const = default;

  at::ScalarType type;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
};

bool fills_storage(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.nbytes() == tensor.storage().nbytes();
}

struct RecordedWrite {
  Layout layout;
  std::function<void(const at::Tensor&)> apply;
  RowWriter rows;  ///< null: it writes whole tensors only
};

/// What a storage without memory waits for.
using Recording = std::vector<RecordedWrite>;

void delete_recording(void* context) {
  const std::unique_ptr<Recording> owned(static_cast<Recording*>(context));
}

/// Null for a storage with memory.
Recording* recording_of(const c10::Storage& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  return data.get_deleter() == &delete_recording ? static_cast<Recording*>(data.get_context())
                                                 : nullptr;
}

Recording* recording_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? recording_of(tensor.storage()) : nullptr;
}

void record(const at::Tensor& tensor, RecordedWrite write, bool overwrites) {
  Recording& writes = *recording_of(tensor);
  if (overwrites && fills_storage(tensor)) writes.clear();
  writes.push_back(std::move(write));
}

void run_recorded(const c10::Storage& storage) {
  const Recording* writes = recording_of(storage);
  if (!writes) return;
  const c10::NoGradGuard no_grad;
  const DeferredInitOff at_once;
  at::Tensor bytes = at::empty({static_cast<int64_t>(storage.nbytes())}, at::dtype(at::kByte));
  for (const RecordedWrite& write : *writes) write.apply(write.layout.in(bytes.storage()));
  if (!storage.device().is_cpu()) bytes = bytes.to(storage.device());
  c10::StorageImpl* from = bytes.storage().unsafeGetStorageImpl();
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
      from->set_data_ptr(c10::DataPtr(nullptr, storage.device())));
}

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Storages of deferred tensors that this thread's DeferredInit has made.
thread_local std::vector<WeakStorage> made;

/// Takes the memory of a new tensor.
void defer(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  if (!storage.device().is_cpu() || storage.nbytes() < kLeastDeferredBytes) return;
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  impl->set_data_ptr_noswap(c10::DataPtr(nullptr, std::make_unique<Recording>().release(),
                                         &delete_recording, storage.device()));
  made.push_back(storage.getWeakStorageImpl());
}

template <size_t kSize>
bool is_one_of(std::string_view name, const std::array<std::string_view, kSize>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Operators on the metadata of a tensor: they leave its data alone.
bool reads_no_data(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "aten::set_",        "aten::set_data",  "aten::detach_",   "aten::requires_grad_",
      "aten::as_strided_", "aten::squeeze_",  "aten::t_",        "aten::unsqueeze_",
      "aten::transpose_",  "aten::swapdims_", "aten::swapaxes_", "aten::retain_grad"};
  return is_one_of(name, kNames);
}

/// Operators that overwrite their argument without reading it.
bool overwrites(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kNames = {"aten::normal_", "aten::uniform_",
                                                             "aten::fill_", "aten::zero_"};
  return is_one_of(name, kNames);
}

bool gives_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& value) {
    return value.alias_info() && !value.alias_info()->isWrite();
  });
}

/// The position of the argument `generator`; nothing without one.
std::optional<size_t> generator_argument(const c10::FunctionSchema& schema) {
  const auto found = schema.argumentIndexWithName("generator");
  return found ? std::optional<size_t>(static_cast<size_t>(*found)) : std::nullopt;
}

/// Whether an operator only writes to its first argument, from numbers and the default generator.
bool can_record(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  if (!schema.name().ends_with('_') || reads_no_data(schema.name())) return false;
  const c10::AliasInfo* written = schema.arguments().front().alias_info();
  if (!written || !written->isWrite() || !arguments.front().isTensor()) return false;
  const auto generator = generator_argument(schema);
  if (generator && !arguments[*generator].isNone()) return false;
  return std::none_of(arguments.begin() + 1, arguments.end(), [](const c10::IValue& value) {
    return value.isTensor() || value.isTensorList() || value.isOptionalTensorList() ||
           value.isStorage();
  });
}

/// Calls `visit` with each tensor in a value.
template <class Visit>
void each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor) visit(*tensor);
    }
  }
}

/// How many 32-bit numbers ATen draws for a tensor; nothing where that is unknown.
std::optional<int64_t> numbers_drawn(std::string_view name, const at::Tensor& tensor) {
  constexpr int64_t kPerBlock = 16;  // of normal_(), which draws for the last block once more
  const int64_t count = tensor.numel();
  if (tensor.scalar_type() != at::kFloat) return std::nullopt;
  if (name == "aten::uniform_") return count;
  if (name != "aten::normal_" || count < kPerBlock || !tensor.is_contiguous()) return std::nullopt;
  return count + (count % kPerBlock == 0 ? 0 : kPerBlock);
}

/// Advances the default generator as the operator would.
void advance_generator(const c10::OperatorHandle& op, Stack arguments) {
  const at::Tensor& tensor = arguments.front().toTensor();
  const auto drawn = numbers_drawn(op.schema().name(), tensor);
  if (!drawn) {
    arguments.front() =
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().requires_grad(false));
    op.callBoxed(arguments);
    return;
  }
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::scoped_lock lock(generator->mutex_);
  at::mt19937 engine = generator->engine();
  for (int64_t i = 0; i < *drawn; ++i) engine();
  generator->set_engine(engine);
}

void record_operator(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values) {
  const DeferredInitOff at_once;
  const c10::FunctionSchema& schema = op.schema();
  Stack arguments = values.vec();
  const at::Tensor tensor = arguments.front().toTensor();
  // Fake tensors have no values, and leave the generator alone.
  if (const auto generator = generator_argument(schema); generator && !has_shapes_only()) {
    at::Generator drawn_from = at::detail::getDefaultCPUGenerator();
    {
      const std::scoped_lock lock(drawn_from.mutex());
      arguments[*generator] = drawn_from.clone();
    }
    if (!SkipInit::is_active()) advance_generator(op, values.vec());
  }
  arguments.front() = c10::IValue();  // else the storage would own itself
  const auto apply = [op, arguments](const at::Tensor& to) {
    Stack stack = arguments;
    stack.front() = to;
    op.callBoxed(stack);
  };
  record(tensor, {Layout(tensor), apply, nullptr}, overwrites(schema.name()));
}

/// Runs the operator's own kernel, which allocates and writes as ever.
void run(const c10::OperatorHandle& op, Stack* stack) {
  const DeferredInitOff at_once;
  op.callBoxed(stack);
}

/// Runs an operator that consists of others, which are deferred each.
void run_parts(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, kDeferredKey);
  op.redispatchBoxed(keys & below, stack);
}

void deferred_dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  static constexpr std::array<std::string_view, 2> kEmpty = {"aten::empty", "aten::empty_strided"};
  static constexpr std::array<std::string_view, 5> kFilled = {
      "aten::zeros", "aten::ones", "aten::full", "aten::rand", "aten::randn"};
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  if (is_one_of(schema.name(), kFilled)) return run_parts(op, keys, stack);
  if (is_one_of(schema.name(), kEmpty)) {
    run(op, stack);
    return defer(stack->back().toTensor());
  }
  const c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  std::vector<at::Tensor> deferred;
  for (const c10::IValue& value : arguments) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      if (is_deferred(tensor)) deferred.push_back(tensor);
    });
  }
  if (deferred.empty()) return run(op, stack);
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return run_parts(op, keys, stack);
  }
  if (can_record(schema, arguments)) {
    const at::Tensor written = arguments.front().toTensor();
    record_operator(op, arguments);
    torch::jit::drop(*stack, count);
    if (!schema.returns().empty()) stack->emplace_back(written);
    return;
  }
  if (!gives_view(schema) && !reads_no_data(schema.name())) {
    for (const at::Tensor& tensor : deferred) run_recorded(tensor.storage());
  }
  run(op, stack);
}

/// Registered once per process on first use: libtorch may not be loaded.
c10::DispatchKey registered_key() {
  static torch::Library library(torch::Library::IMPL, "_", kDeferredKey, __FILE__, __LINE__);
  static const bool done = [] {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&deferred_dispatch>());
    return true;
  }();
  (void)done;
  return kDeferredKey;
}

/// Writes `from`'s rows by the only recorded write. False if that is impossible.
bool write_some(const at::Tensor& from, int64_t first, const at::Tensor& to) {
  const Recording& writes = *recording_of(from);
  if (writes.size() != 1 || !writes.front().rows) return false;
  const RecordedWrite& write = writes.front();
  if (write.layout == Layout(from)) {
    write.rows(to, first);
    return true;
  }
  // A view of a storage that is filled byte by byte.
  if (write.layout.type != at::kByte || write.layout.sizes.size() != 1) return false;
  if (!from.is_contiguous() || !to.is_contiguous() || !to.device().is_cpu()) return false;
  const int64_t row = from.numel() / from.size(0), size = from.element_size();
  write.rows(to.view({-1}).view(at::kByte), (from.storage_offset() + first * row) * size);
  return true;
}

}  // namespace

DeferredInit::DeferredInit() : guard_(registered_key()) {
  made.clear();
}

DeferredInit::~DeferredInit() {
  made.clear();
}

DeferredInitOff::DeferredInitOff() : guard_(kDeferredKey) {}

bool DeferredInit::is_active() {
  return c10::impl::tls_is_dispatch_key_included(kDeferredKey);
}

void DeferredInit::materialize_except(const std::vector<at::Tensor>& kept) const {
  std::map<const c10::StorageImpl*, size_t> users;
  std::set<const c10::TensorImpl*> seen;
  for (const at::Tensor& tensor : kept) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) {
      ++users[tensor.storage().unsafeGetStorageImpl()];
    }
  }
  for (const WeakStorage& each : made) {
    auto impl = each.lock();
    if (!impl) continue;
    const c10::Storage storage(std::move(impl));
    const auto found = users.find(storage.unsafeGetStorageImpl());
    if (found == users.end() || storage.use_count() > found->second + 1) run_recorded(storage);
  }
}

bool is_deferred(const at::Tensor& tensor) {
  return recording_of(tensor) != nullptr;
}

void materialize(const at::Tensor& tensor) {
  if (is_deferred(tensor)) run_recorded(tensor.storage());
}

void write_rows(const at::Tensor& tensor, const RowWriter& write) {
  if (!is_deferred(tensor)) return write(tensor, 0);
  const auto apply = [write](const at::Tensor& to) { write(to, 0); };
  record(tensor, {Layout(tensor), apply, write}, /*overwrites=*/true);
}

void copy_rows(const at::Tensor& from, int64_t first, const at::Tensor& to) {
  if (to.size(0) == 0) return;
  const c10::NoGradGuard no_grad;
  if (is_deferred(from) && write_some(from, first, to)) return;
  materialize(from);
  to.copy_(from.narrow(0, first, to.size(0)));
}

void move_deferred(at::Tensor tensor, at::Device device) {
  if (!fills_storage(tensor) || tensor.storage().use_count() > 1) {
    materialize(tensor);
    return tensor.set_data(tensor.detach().to(device));
  }
  at::Tensor moved = at::empty_strided(tensor.sizes(), tensor.strides(),
                                       tensor.options().device(device).requires_grad(false));
  c10::StorageImpl* from = tensor.storage().unsafeGetStorageImpl();
  c10::DataPtr recording = from->set_data_ptr(c10::DataPtr(nullptr, from->device()));
  recording.unsafe_set_device(device);
  moved.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(recording));
  tensor.set_data(moved);
}

}  // namespace accel
