#include "kernels/memory/caching_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

#include "core/base/environment.h"
#include "kernels/memory/free_list.h"

namespace accel {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kGrowth = 32 << 20;  // bytes by which the usable range grows

/// A FreeList over reserved addresses, which are committed as they are needed.
class TensorHeap final : public c10::Allocator {
 public:
  /// Uses the `reserved` bytes of addresses from `begin`; larger requests go to `other`.
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

  /// Free blocks become clear pages, which use no memory until they are touched.
  void clear_holes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    heap_.for_each_free_range([this](int64_t begin, int64_t size) {
      const int64_t first = (begin + kPage - 1) / kPage * kPage;
      const int64_t last = std::min(begin + size, usable_) / kPage * kPage;
      if (last > first) madvise(begin_ + first, static_cast<size_t>(last - first), MADV_DONTNEED);
    });
  }

  static inline TensorHeap* instance = nullptr;

 private:
  void* take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<FreeList::Block> block = heap_.take(static_cast<int64_t>(bytes));
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
  std::mutex mutex_;  // guards the members below
  FreeList heap_;
  int64_t usable_ = 0;
};

bool environment_says_how() {
  const std::string tunables = environment_variable("GLIBC_TUNABLES").value_or("");
  if (tunables.find("glibc.malloc.") != tunables.npos) return true;
  return environment_variable("MALLOC_MMAP_MAX_") ||
         environment_variable("MALLOC_MMAP_THRESHOLD_") ||
         environment_variable("MALLOC_TRIM_THRESHOLD_");
}

bool keep() {
  if (environment_says_how()) return false;
  const int64_t addresses = 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  void* range = mmap(nullptr, static_cast<size_t>(addresses), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    mallopt(M_ARENA_MAX,
            1);  // each further arena reserves 64 MiB of addresses and fragments separately
    return false;
  }
  mallopt(M_MMAP_MAX, 0);  // otherwise large blocks return to the OS when freed
  mallopt(M_TRIM_THRESHOLD, -1);
  TensorHeap::instance =
      new TensorHeap(c10::GetDefaultCPUAllocator(), static_cast<char*>(range), addresses);
  c10::SetCPUAllocator(TensorHeap::instance, /*priority=*/1);  // takes ownership
  return true;
}

}  // namespace

void use_caching_allocator() {
  static const bool kept = keep();
  (void)kept;
}

void give_back_freed_memory() {
  if (TensorHeap::instance) TensorHeap::instance->clear_holes();
  malloc_trim(0);
}

}  // namespace accel
