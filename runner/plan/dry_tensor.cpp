#include "runner/plan/dry_tensor.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>

#include <stdexcept>

#include "core/error.h"
#include "runner/plan/dry_scope.h"

namespace accel {
namespace {

/// Pages nobody has written to take no memory.
class DryMemory {
 public:
  DryMemory(size_t bytes, std::shared_ptr<WorkMeter> meter)
      : bytes_(bytes), meter_(std::move(meter)) {
    if (bytes_ > 0) {
      data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (data_ == MAP_FAILED) {
      throw Error(ExitCode::kMemory,
                  "the system does not give " + std::to_string(bytes_) +
                      " bytes of addresses, which a plan takes without using them",
                  "raise 'ulimit -v', or plan on another machine");
    }
    block_ = meter_->take(static_cast<int64_t>(bytes_));
  }
  ~DryMemory() {
    meter_->give_back(block_, static_cast<int64_t>(bytes_));
    if (data_) munmap(data_, bytes_);
  }
  DryMemory(const DryMemory&) = delete;
  DryMemory& operator=(const DryMemory&) = delete;

  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
  BlockHeap::Block block_ = 0;
  std::shared_ptr<WorkMeter> meter_;
};

void drop(void* memory) {
  delete static_cast<DryMemory*>(memory);
}

at::DataPtr dry_data(size_t bytes) {
  if (!DryScope::meter()) throw std::logic_error("a dry tensor outside of a DryScope");
  auto memory = std::make_unique<DryMemory>(bytes, DryScope::meter());
  void* data = memory->data();
  return {data, memory.release(), &drop, at::Device(at::kCPU)};
}

/// Where a kernel that gives a tensor another size finds the memory for it.
class DryAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override { return dry_data(bytes); }
  void copy_data(void*, const void*, std::size_t) const override {}
};

std::vector<int64_t> contiguous(at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(1, sizes[i]);
  }
  return strides;
}

}  // namespace

at::Tensor dry_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  static DryAllocator allocator;
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(type);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       dry_data(bytes), &allocator, true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), meta);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor dry_like(const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense()) {
    return dry_tensor(like.sizes(), like.strides(), like.scalar_type());
  }
  return dry_empty(like.sizes(), like.scalar_type());
}

at::Tensor dry_empty(at::IntArrayRef sizes, at::ScalarType type) {
  return dry_tensor(sizes, contiguous(sizes), type);
}

}  // namespace accel
