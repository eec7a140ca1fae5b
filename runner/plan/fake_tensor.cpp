#include "runner/plan/fake_tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/accumulate.h>

#include "core/base/text.h"
#include "kernels/memory/mkl_buffers.h"

namespace accel {

AddressSpaceError::AddressSpaceError(size_t bytes)
    : Error(ExitCode::kMemory,
            text("cannot reserve {} bytes of address space, which a plan maps but does not use",
                 bytes),
            "raise the limits of 'ulimit -v' and 'ulimit -d', or plan on another machine"),
      bytes_(bytes) {}

MemoryLimitError::MemoryLimitError(int64_t bytes)
    : Error(ExitCode::kMemory, text("the tensors of a rank take more than {} bytes", bytes),
            "divide the model over more ranks, or make 'train.micro_batch' smaller") {}

int64_t WorkMeter::peak_resident() const {
  return small_.extent() + std::min(large_.extent(), large_.peak() + kMostFragmentation);
}

int64_t WorkMeter::packing_bytes() const {
  int64_t sum = 0;
  for (const auto& [size, block] : packing_) sum += size;
  return sum;
}

/// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008: both matrices
/// are packed in blocks, the wide one once or per thread. The sizes are those that MKL allocates on
/// AVX-512. As share_heap_with_mkl() has it, a thread keeps one buffer, and large ones are free
/// after the product.
void WorkMeter::multiply(int64_t m, int64_t k, int64_t n, int64_t bytes) {
  constexpr int64_t kLeastWork = 1 << 18;  // smallest product that is packed
  constexpr int64_t kBlock = 4'598'328;    // bytes, of the narrow matrix and tables
  constexpr int64_t kDepth = 384, kWidth = 9984, kLeastShared = 1000;
  if (m < 2 || m * k * n < kLeastWork) return;
  const int64_t threads = at::get_num_threads();
  const bool is_shared = n >= kLeastShared;
  const int64_t columns = is_shared ? std::min(n, kWidth * threads) : (n + threads - 1) / threads;
  const int64_t size = kBlock + std::min(k, kDepth) * columns * bytes;
  const auto count = static_cast<size_t>(is_shared ? 1 : threads);
  if (size > static_cast<int64_t>(kMostKeptByMkl)) {
    std::vector<FreeList::Block> buffers;
    while (buffers.size() < count) buffers.push_back(*large_.take(size));
    for (const FreeList::Block buffer : buffers) large_.give_back(buffer);
    return;
  }
  if (packing_.size() < count) packing_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    auto& [kept, block] = packing_[i];
    if (kept >= size) continue;
    const FreeList::Block larger = *large_.take(size);
    if (kept > 0) large_.give_back(block);
    kept = size;
    block = larger;
  }
}

FreeList::Block WorkMeter::take(int64_t bytes) {
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  recent_peak_ = std::max(recent_peak_, live_);
  return *heap_of(bytes).take(bytes);
}

void WorkMeter::give_back(FreeList::Block block, int64_t bytes) {
  live_ -= bytes;
  heap_of(bytes).give_back(block);
}

std::shared_ptr<WorkMeter>& meter_of_thread() {
  thread_local std::shared_ptr<WorkMeter> meter;
  return meter;
}

namespace {

/// Zeros. Untouched pages of a mapping take no memory; numbers and short lists, which are most
/// tensors of an optimizer step, are not worth one.
class DryMemory {
 public:
  DryMemory(size_t bytes, std::shared_ptr<WorkMeter> meter)
      : bytes_(bytes), meter_(std::move(meter)) {
    if (is_small()) {
      data_ = std::calloc(bytes_, 1);
      if (!data_) throw std::bad_alloc();
    } else if (bytes_ > 0) {
      data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (data_ == MAP_FAILED) throw AddressSpaceError(bytes_);
    block_ = meter_->take(static_cast<int64_t>(bytes_));
  }
  ~DryMemory() {
    meter_->give_back(block_, static_cast<int64_t>(bytes_));
    if (is_small()) {
      std::free(data_);
    } else if (data_) {
      munmap(data_, bytes_);
    }
  }
  DryMemory(const DryMemory&) = delete;
  DryMemory& operator=(const DryMemory&) = delete;

  void* data() const { return data_; }

 private:
  bool is_small() const {
    constexpr size_t kPage = 4096;
    return bytes_ > 0 && bytes_ < kPage;
  }

  size_t bytes_;
  void* data_ = nullptr;
  FreeList::Block block_ = 0;
  std::shared_ptr<WorkMeter> meter_;
};

void drop(void* memory) {
  delete static_cast<DryMemory*>(memory);
}

at::DataPtr fake_data(size_t bytes) {
  if (!meter_of_thread()) throw std::logic_error("a fake tensor outside of a FakeTensorMode");
  auto memory = std::make_unique<DryMemory>(bytes, meter_of_thread());
  void* data = memory->data();
  return {data, memory.release(), &drop, at::Device(at::kCPU)};
}

/// The allocator of kernels that resize a tensor.
class DryAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override { return fake_data(bytes); }
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

at::Tensor fake_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  static DryAllocator allocator;
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(type);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       fake_data(bytes), &allocator, true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), meta);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor fake_like(const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense()) {
    return fake_tensor(like.sizes(), like.strides(), like.scalar_type());
  }
  return fake_empty(like.sizes(), like.scalar_type());
}

at::Tensor fake_empty(at::IntArrayRef sizes, at::ScalarType type) {
  return fake_tensor(sizes, contiguous(sizes), type);
}

}  // namespace accel
