#include "train/step/device_batches.h"

#include <ATen/ops/from_blob.h>

#include <mutex>
#include <stdexcept>
#include <utility>

namespace accel {
namespace {

at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
    default:
      throw std::logic_error(std::string("no tensor type for ") + name_of(type));
  }
}

/// Owner of a tensor's memory. Released ones are reused, so that a steady step allocates nothing;
/// tensors may be freed by any thread.
class Keeper {
 public:
  static Keeper* of(std::shared_ptr<const void> owner) {
    Keeper* const keeper = take();
    keeper->owner_ = std::move(owner);
    return keeper;
  }
  /// The deleter of a tensor's storage.
  static void release(void* context) {
    auto* const keeper = static_cast<Keeper*>(context);
    keeper->owner_.reset();
    const std::lock_guard lock(mutex());
    keeper->next_ = std::exchange(released(), keeper);
  }

 private:
  static Keeper* take() {
    const std::lock_guard lock(mutex());
    Keeper* const keeper = released();
    if (!keeper) return new Keeper;
    released() = keeper->next_;
    return keeper;
  }
  // Never destroyed: tensors may outlive static objects.
  static std::mutex& mutex() {
    static auto* const made = new std::mutex;
    return *made;
  }
  static Keeper*& released() {
    static Keeper* first = nullptr;
    return first;
  }

  std::shared_ptr<const void> owner_;
  Keeper* next_ = nullptr;  ///< in the free list
};

at::Tensor to_tensor(const Array& array) {
  if (array.empty()) return {};
  // Tensors need a mutable pointer; the memory of a batch is not shared.
  void* data = const_cast<std::byte*>(array.data());
  return at::for_blob(data, array.shape())
      .context(Keeper::of(array.owner()), &Keeper::release)
      .options(scalar_type(array.type()))
      .make_tensor();
}

/// Through pinned memory, for an asynchronous copy.
at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  if (device.is_cpu() || !tensor.defined()) return tensor;
  return tensor.pin_memory().to(device, tensor.scalar_type(), true);
}

void fill(Batch& batch, const HostBatch& host, at::Device device) {
  const auto there = [&](const Array& array) { return moved(to_tensor(array), device); };
  batch.inputs = there(host.inputs);
  batch.targets = there(host.targets);
  batch.host_targets = device.is_cpu() ? at::Tensor() : to_tensor(host.targets);
  batch.ids.assign(host.ids.begin(), host.ids.end());
  batch.lengths = there(host.lengths);
  batch.segments = there(host.segments);
}

/// The reused list, without tensors.
std::vector<Batch>& spare_list() {
  thread_local std::vector<Batch> list;
  return list;
}

}  // namespace

Batch to_batch(const HostBatch& host, at::Device device) {
  Batch batch;
  fill(batch, host, device);
  return batch;
}

Batch first_rows(const Batch& batch, int64_t rows) {
  const auto cut = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, 0, rows) : tensor;
  };
  Batch out{cut(batch.inputs),  cut(batch.targets),  batch.ids,
            cut(batch.lengths), cut(batch.segments), cut(batch.host_targets)};
  out.ids.resize(static_cast<size_t>(rows));
  return out;
}

DeviceBatches::DeviceBatches(const GlobalBatch& global_batch, at::Device device)
    : list_(std::exchange(spare_list(), {})) {
  list_.resize(global_batch.micro_batches.size());
  for (size_t i = 0; i < list_.size(); ++i) fill(list_[i], global_batch.micro_batches[i], device);
}

void DeviceBatches::drop_repeated(const GlobalBatch& global_batch) {
  for (size_t i = 0; i < list_.size(); ++i) {
    const HostBatch& host = global_batch.micro_batches[i];
    if (host.padded > 0 && host.valid() > 0) list_[i] = first_rows(list_[i], host.valid());
  }
}

DeviceBatches::~DeviceBatches() {
  for (Batch& batch : list_) {
    batch.inputs = batch.targets = batch.lengths = batch.segments = at::Tensor();
    batch.host_targets = at::Tensor();
  }
  spare_list() = std::move(list_);
}

}  // namespace accel
