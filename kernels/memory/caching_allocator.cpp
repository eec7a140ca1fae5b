#include "kernels/memory/caching_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "core/base/environment.h"
#include "kernels/memory/mkl_buffers.h"
#include "kernels/memory/tensor_heap.h"

namespace accel {
namespace {

/// Large tensors are blocks of a TensorHeap.
class CachingAllocator final : public c10::Allocator {
 public:
  /// Small tensors, and those for which there is no room, come from `other`.
  CachingAllocator(c10::Allocator* other, char* begin, int64_t reserved)
      : other_(other), heap_(begin, reserved) {}

  c10::DataPtr allocate(size_t bytes) override {
    void* data = static_cast<int64_t>(bytes) >= kLeastTensorBlock ? heap_.take(bytes) : nullptr;
    if (!data) return other_->allocate(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* dest, const void* source, std::size_t bytes) const override {
    default_copy_data(dest, source, bytes);
  }

  TensorHeap& heap() { return heap_; }

  static inline CachingAllocator* instance = nullptr;

 private:
  static void give_back(void* data) {
    if (!instance->heap_.contains(data)) return instance->other_->raw_deallocate(data);
    c10::profiledCPUMemoryReporter().Delete(data);
    instance->heap_.give_back(data);
  }

  c10::Allocator* const other_;
  TensorHeap heap_;
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
  CachingAllocator::instance =
      new CachingAllocator(c10::GetDefaultCPUAllocator(), static_cast<char*>(range), addresses);
  c10::SetCPUAllocator(CachingAllocator::instance, /*priority=*/1);  // takes ownership
  share_heap_with_mkl(CachingAllocator::instance->heap());
  return true;
}

}  // namespace

void use_caching_allocator() {
  static const bool kept = keep();
  (void)kept;
}

void give_back_freed_memory() {
  if (CachingAllocator::instance) CachingAllocator::instance->heap().clear_holes();
  malloc_trim(0);
}

}  // namespace accel
