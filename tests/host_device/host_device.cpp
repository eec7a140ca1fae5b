#include "tests/host_device/host_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace accel {
namespace {

constexpr auto kType = c10::DeviceType::HPU;

std::atomic<int64_t> g_calls = 0;
std::atomic<int64_t> g_waits = 0;
std::atomic<bool> g_records = false;
thread_local c10::DeviceIndex t_current = 0;

constexpr c10::StreamId kDefaultStream = 0, kSideStream = 1;
thread_local std::array<c10::StreamId, kHostDevices> t_streams = {};

bool is_side_stream(c10::DeviceIndex device) {
  return t_streams.at(static_cast<size_t>(device)) == kSideStream;
}

/// Copies of a device's stream that run when an event behind them is waited for: a missing wait
/// reads old memory. On the side stream these are all copies, and memory that is written too early
/// is copied. On the default one, which runs what is queued at once, they are those to the host,
/// whose values are taken at once.
class DelayedCopies {
 public:
  static DelayedCopies& of(c10::DeviceIndex device, c10::StreamId stream) {
    static std::array<std::array<DelayedCopies, 2>, kHostDevices> all;
    return all.at(static_cast<size_t>(device)).at(static_cast<size_t>(stream));
  }
  static DelayedCopies& of(const c10::Stream& stream) {
    return of(stream.device_index(), stream.id());
  }
  /// Of the stream that is current.
  static DelayedCopies& of(c10::DeviceIndex device) {
    return of(device, t_streams.at(static_cast<size_t>(device)));
  }

  void queue(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    ++queued_;
  }
  uint64_t queued() const {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  void run_to(uint64_t number) {
    const std::lock_guard lock(mutex_);
    for (; done_ < number; ++done_) {
      calls_.front()();
      calls_.pop_front();
    }
  }
  void run_all() { run_to(queued()); }

 private:
  mutable std::mutex mutex_;
  std::deque<std::function<void()>> calls_;
  uint64_t queued_ = 0, done_ = 0;
};

/// A place in the order of a stream's work.
struct Mark {
  c10::Stream stream;
  uint64_t number;
  int64_t calls;  ///< g_calls before it

  explicit Mark(const c10::Stream& of)
      : stream(of), number(DelayedCopies::of(of).queued()), calls(g_calls) {}
  void wait() const { DelayedCopies::of(stream).run_to(number); }
  /// By the host, which waits for all there is unless work has been launched behind the mark.
  void wait_on_host() const {
    g_waits += calls == g_calls;
    wait();
  }
};

/// The host waits for what is launched on the current stream.
void wait_for_current(c10::DeviceIndex device) {
  ++g_waits;
  DelayedCopies::of(device).run_all();
}

/// Throws for an operator whose result the host waits for, while work is recorded.
void check_recording(bool waits, const char* name) {
  TORCH_CHECK(!waits || !g_records, name, ": the host reads the device while a graph is recorded");
}

/// Tensors of an operator's call as the CPU sees them, and the way back.
class Views {
 public:
  explicit Views(std::string name) : name_(std::move(name)) {}

  at::Tensor view(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (tensor.device().type() != kType) {
      if (tensor.dim() == 0) return tensor;  // a number, which every device takes
      throw std::runtime_error(name_ +
                               ": expected all tensors to be on the same device, but found " +
                               tensor.device().str());
    }
    device_ = tensor.device();
    const c10::Storage& storage = tensor.storage();
    if (storage.nbytes() == 0) {  // may be given memory by the operator
      const at::Tensor empty = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
      originals_[empty.unsafeGetTensorImpl()] = tensor;
      seen_.push_back(empty);
      return empty;
    }
    c10::Storage same(c10::Storage::use_byte_size_t(), storage.nbytes(),
                      c10::DataPtr(storage.mutable_data(), c10::Device(c10::kCPU)));
    at::Tensor seen = at::detail::make_tensor<c10::TensorImpl>(
        std::move(same), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    seen.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                      tensor.storage_offset());
    if (tensor.is_conj() || tensor.is_neg()) throw std::runtime_error(name_ + ": lazy bits");
    originals_[seen.unsafeGetTensorImpl()] = tensor;
    seen_.push_back(seen);
    if (storage.data()) storages_.emplace(storage.data(), storage);
    return seen;
  }

  at::Tensor back(const at::Tensor& made) {
    if (!made.defined()) return made;
    const auto same = originals_.find(made.unsafeGetTensorImpl());
    if (same != originals_.end()) {
      const at::Tensor& original = same->second;
      if (original.sizes() == made.sizes()) return original;
      if (original.storage().nbytes() > 0) throw std::runtime_error(name_ + ": resizes");
      original.unsafeGetTensorImpl()->set_storage_keep_dtype(owned(made));
      original.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides());
      return original;
    }
    const auto shared = storages_.find(made.storage().data());
    c10::Storage storage = shared != storages_.end() ? shared->second : owned(made);
    at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::HPU), made.dtype());
    out.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides(),
                                                     made.storage_offset());
    return out;
  }

  void wants(c10::Device device) { device_ = device.has_index() ? device : host_device(t_current); }
  const c10::Device& device() const { return device_; }

 private:
  c10::Storage owned(const at::Tensor& made) const {
    auto* keep = new at::Tensor(made);
    c10::DataPtr data(
        made.storage().mutable_data(), keep,
        [](void* kept) { delete static_cast<at::Tensor*>(kept); }, device_);
    return {c10::Storage::use_byte_size_t(), made.storage().nbytes(), std::move(data)};
  }

  std::string name_;
  c10::Device device_ = host_device();
  std::map<const c10::TensorImpl*, at::Tensor> originals_;
  /// The tensors that view() has returned: out= operators return references to their arguments,
  /// which are read after the stack has dropped these.
  std::vector<at::Tensor> seen_;
  std::map<const void*, c10::Storage> storages_;
};

const at::Generator& generator_of(c10::DeviceIndex index) {
  static std::array<at::Generator, kHostDevices> generators = {at::detail::createCPUGenerator(),
                                                               at::detail::createCPUGenerator()};
  return generators.at(static_cast<size_t>(index));
}

void to_views(c10::IValue& value, Views& views) {
  if (value.isTensor()) {
    value = views.view(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> seen;
    for (const at::Tensor& tensor : value.toTensorVector()) seen.push_back(views.view(tensor));
    value = c10::IValue(seen);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> seen;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      seen.push_back(tensor ? std::optional(views.view(*tensor)) : std::nullopt);
    }
    value = c10::IValue(seen);
  } else if (value.isDevice() && value.toDevice().type() == kType) {
    views.wants(value.toDevice());
    value = c10::IValue(c10::Device(c10::kCPU));
  }
}

void from_views(c10::IValue& value, Views& views) {
  if (value.isTensor()) {
    value = views.back(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> made;
    for (const at::Tensor& tensor : value.toTensorVector()) made.push_back(views.back(tensor));
    value = c10::IValue(made);
  }
}

/// With the CPU's kernel of `name`, on the same memory.
void run_as(const c10::OperatorHandle& op, const char* name, torch::jit::Stack* stack) {
  ++g_calls;
  const bool reads = op.operator_name().name == "aten::_local_scalar_dense" ||
                     op.operator_name().name == "aten::nonzero";
  if (reads) wait_for_current(t_current);
  if (is_side_stream(t_current)) DelayedCopies::of(t_current).run_all();
  check_recording(reads, name);
  const auto host = c10::Dispatcher::singleton().findSchemaOrThrow(
      name, op.operator_name().overload_name.c_str());
  const auto& arguments = host.schema().arguments();
  Views views(name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    to_views(torch::jit::peek(*stack, i, arguments.size()), views);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    if (value.isNone() && arguments[i].type()->str() == "Generator?") {
      value = c10::IValue(generator_of(views.device().index()));
    }
  }
  host.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  const size_t results = host.schema().returns().size();
  for (size_t i = 0; i < results; ++i) {
    from_views(torch::jit::peek(*stack, i, results), views);
  }
}

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                 torch::jit::Stack* stack) {
  run_as(op, op.operator_name().name.c_str(), stack);
}

void copy_now(const at::Tensor& from, const at::Tensor& to) {
  Views views("copy");
  const auto plain = [&](const at::Tensor& tensor) {
    return tensor.device().type() == kType ? views.view(tensor) : tensor;
  };
  plain(to).copy_(plain(from));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  ++g_calls;
  const bool between = from.is_cpu() != to.is_cpu();
  check_recording(between, "copy");
  const c10::DeviceIndex device = (from.is_cpu() ? to : from).device().index();
  DelayedCopies& copies = DelayedCopies::of(device);
  if (between && !non_blocking) wait_for_current(device);
  if (is_side_stream(device) && non_blocking) {
    copies.queue([from, to] { copy_now(from, to); });
  } else if (is_side_stream(device)) {
    copies.run_all();
    copy_now(from, to);
  } else if (to.is_cpu() && non_blocking) {
    const at::Tensor values = at::empty(from.sizes(), from.options().device(at::kCPU));
    copy_now(from, values);
    copies.queue([values, to] { copy_now(values, to); });
  } else {
    copy_now(from, to);
  }
  return to;
}

/// What ATen asks of a device that brings its own: the CPU's.
void convolution(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                 torch::jit::Stack* stack) {
  run_as(op, "aten::convolution", stack);
}

void convolution_backward(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                          torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  const at::Tensor weight = torch::jit::peek(*stack, 2, arguments).toTensor();
  const bool transposed = torch::jit::peek(*stack, 6, arguments).toBool();
  const int64_t groups = torch::jit::peek(*stack, 8, arguments).toInt();
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  // The CPU's wants the shape of the bias as well.
  const auto first = stack->end() - static_cast<ptrdiff_t>(arguments);
  stack->insert(first + 3, c10::IValue(std::vector<int64_t>{channels}));
  run_as(op, "aten::convolution_backward", stack);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return host_device(t_current); }
  void setDevice(c10::Device device) const override { t_current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    t_current = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device,
                       t_streams.at(static_cast<size_t>(device.index())));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, kSideStream);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    t_streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kHostDevices; }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    destroyEvent(*event, stream.device_index());
    *event = new Mark(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    const Mark& mark = *static_cast<const Mark*>(event);
    if (mark.stream != stream) mark.wait();
  }
  bool queryEvent(void* event) const override {
    synchronizeEvent(event);
    return true;
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<Mark*>(event);
  }
  void synchronizeEvent(void* event) const override {
    if (event) static_cast<const Mark*>(event)->wait_on_host();
  }
  void synchronizeStream(const c10::Stream& stream) const override { Mark(stream).wait_on_host(); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    for (const c10::StreamId stream : {kDefaultStream, kSideStream}) {
      DelayedCopies::of(index, stream).run_all();
    }
    ++g_waits;
  }
};

struct HostDeviceHooks final : at::HPUHooksInterface {
  explicit HostDeviceHooks(at::HPUHooksArgs /*none*/) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kHostDevices; }
  void setCurrentDevice(c10::DeviceIndex index) const override { t_current = index; }
  c10::DeviceIndex getCurrentDevice() const override { return t_current; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return generator_of(index < 0 ? t_current : index);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

}  // namespace
}  // namespace accel

namespace at {
using accel::HostDeviceHooks;
C10_REGISTER_TYPED_CLASS(HPUHooksRegistry, "HPUHooks", HostDeviceHooks)
}  // namespace at

namespace accel {
namespace {
const c10::impl::DeviceGuardImplRegistrar kGuard(kType, new Guard());
}  // namespace

TORCH_LIBRARY_IMPL(_, HPU, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

// Operators that are not in the lists of host_device_autocast.cpp cast nothing.
TORCH_LIBRARY_IMPL(_, AutocastHPU, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("_copy_from", &copy_from);
  library.impl("convolution_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl("convolution_backward_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

RecordingScope::RecordingScope() {
  g_records = true;
}
RecordingScope::~RecordingScope() {
  g_records = false;
}

int64_t host_device_calls() {
  return g_calls;
}

int64_t host_device_waits() {
  return g_waits;
}

}  // namespace accel

/// The type of device, for a program that loads this library.
extern "C" int accel_host_device_type() {
  return static_cast<int>(accel::kType);
}
