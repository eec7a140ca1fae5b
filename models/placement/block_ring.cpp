#include "models/placement/block_ring.h"

#include <sys/mman.h>

#include <new>

namespace accel {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

BlockRing::BlockRing(int64_t capacity) : places_(capacity) {
  const size_t mapped = static_cast<size_t>(capacity) + kHugePage;
  void* memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = std::shared_ptr<void>(memory, [mapped](void* at) { ::munmap(at, mapped); });
  const auto address = reinterpret_cast<uintptr_t>(memory);
  data_ = static_cast<std::byte*>(memory) + (kHugePage - address % kHugePage) % kHugePage;
  // A huge page at the end would be larger than the capacity.
  const size_t huge = static_cast<size_t>(capacity) / kHugePage * kHugePage;
  if (huge > 0) ::madvise(data_, huge, MADV_HUGEPAGE);
}

}  // namespace accel
