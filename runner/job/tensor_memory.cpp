#include "runner/job/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

#include "runner/job/block_heap.h"

namespace accel {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kGrowth = 32 << 20;  // bytes of the range that become usable at a time

/// A BlockHeap over addresses that are reserved at first and become memory as they are needed.
class TensorHeap final : public c10::Allocator {
 public:
  /// Lies in the `reserved` bytes of addresses from `begin` on; what they cannot hold comes from
  /// `other`.
  TensorHeap(c10::Allocator* other, char* begin, int64_t reserved)
      : other_(other), begin_(begin), reserved_(reserved) {
    heap_.limit(reserved_);
  }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = static_cast<int64_t>(bytes) >= kLeastTensorBlock ? take(bytes) : nullptr;
    if (!data) return other_->allocate(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* dest, const void* source, std::size_t bytes) const override {
    default_copy_data(dest, source, bytes);
  }

  /// What is free is clear pages from here on, which take memory when they are touched.
  void clear_holes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    heap_.for_each_hole([this](int64_t begin, int64_t size) {
      const int64_t first = (begin + kPage - 1) / kPage * kPage;
      const int64_t last = std::min(begin + size, usable_) / kPage * kPage;
      if (last > first) madvise(begin_ + first, static_cast<size_t>(last - first), MADV_DONTNEED);
    });
  }

  static inline TensorHeap* instance = nullptr;

 private:
  void* take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<BlockHeap::Block> block = heap_.take(static_cast<int64_t>(bytes));
    if (!block) return nullptr;
    if (heap_.extent() > usable_ && !grow()) {
      heap_.give_back(*block);
      heap_.limit(usable_);
      return nullptr;
    }
    return begin_ + *block;
  }

  bool grow() {
    const int64_t wanted = std::min((heap_.extent() + kGrowth - 1) / kGrowth * kGrowth, reserved_);
    if (mprotect(begin_ + usable_, static_cast<size_t>(wanted - usable_), PROT_READ | PROT_WRITE)) {
      return false;
    }
    usable_ = wanted;
    return true;
  }

  static void give_back(void* data) {
    TensorHeap& heap = *instance;
    const auto block = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) -
                                            reinterpret_cast<uintptr_t>(heap.begin_));
    if (block < 0 || block >= heap.reserved_) return heap.other_->raw_deallocate(data);
    c10::profiledCPUMemoryReporter().Delete(data);
    const std::lock_guard<std::mutex> lock(heap.mutex_);
    heap.heap_.give_back(block);
  }

  c10::Allocator* const other_;
  char* const begin_;
  const int64_t reserved_;
  std::mutex mutex_;  // of what follows
  BlockHeap heap_;
  int64_t usable_ = 0;
};

bool environment_says_how() {
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables && std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos) {
    return true;
  }
  return std::getenv("MALLOC_MMAP_MAX_") || std::getenv("MALLOC_MMAP_THRESHOLD_") ||
         std::getenv("MALLOC_TRIM_THRESHOLD_");
}

bool keep() {
  if (environment_says_how()) return false;
  const int64_t addresses = 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  void* range = mmap(nullptr, static_cast<size_t>(addresses), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    mallopt(M_ARENA_MAX,
            1);  // each further one takes 64 MiB of addresses, and has holes of its own
    return false;
  }
  mallopt(M_MMAP_MAX, 0);  // a mapping of its own goes back as soon as it is freed
  mallopt(M_TRIM_THRESHOLD, -1);
  TensorHeap::instance =
      new TensorHeap(c10::GetDefaultCPUAllocator(), static_cast<char*>(range), addresses);
  c10::SetCPUAllocator(TensorHeap::instance, /*priority=*/1);  // which takes it over
  return true;
}

}  // namespace

void keep_freed_memory() {
  static const bool kept = keep();
  (void)kept;
}

void give_back_freed_memory() {
  if (TensorHeap::instance) TensorHeap::instance->clear_holes();
  malloc_trim(0);
}

}  // namespace accel
