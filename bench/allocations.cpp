#include "bench/allocations.h"

#include <execinfo.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace accel {
namespace {

constexpr int kDeepest = 24;
constexpr size_t kKept = 6;  ///< frames that identify a site

thread_local Allocations* counted = nullptr;

enum class Owner { kExecutable, kLanguage, kLibrary };

struct Range {
  uintptr_t first, last;
  Owner owner;
};

/// Address ranges of the loaded libraries; complete once all are loaded.
const std::vector<Range>& ranges() {
  static const std::vector<Range> found = [] {
    std::vector<Range> all;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* to) {
          const std::string_view name = info->dlpi_name;
          const bool language = name.find("libstdc++") != name.npos ||
                                name.find("libc.so") != name.npos ||
                                name.find("libgcc") != name.npos;
          const Owner owner = name.empty() ? Owner::kExecutable
                              : language   ? Owner::kLanguage
                                           : Owner::kLibrary;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
            const uintptr_t first = info->dlpi_addr + part.p_vaddr;
            static_cast<std::vector<Range>*>(to)->push_back({first, first + part.p_memsz, owner});
          }
          return 0;
        },
        &all);
    return all;
  }();
  return found;
}

Owner owner_of(const void* address) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  for (const Range& range : ranges()) {
    if (place >= range.first && place < range.last) return range.owner;
  }
  return Owner::kLibrary;
}

/// Attributes an allocation to the `caller` of operator new; does not count its own.
void count_one(const void* caller) {
  Allocations& into = *counted;
  counted = nullptr;
  std::array<void*, kDeepest> frames;
  const int depth = backtrace(frames.data(), kDeepest);
  ++into.all;
  int i = 0;
  while (i < depth && frames[static_cast<size_t>(i)] != caller) ++i;
  AllocationSite site;
  for (; i < depth && site.size() < kKept; ++i) {
    const Owner owner = owner_of(frames[static_cast<size_t>(i)]);
    if (owner == Owner::kLanguage) continue;
    if (owner == Owner::kLibrary && site.empty()) break;
    site.push_back(frames[static_cast<size_t>(i)]);
  }
  if (!site.empty()) {
    ++into.own;
    ++into.sites[site];
  }
  counted = &into;
}

void* allocate(size_t size, size_t alignment, const void* caller) {
  if (counted) count_one(caller);
  const size_t wanted = size ? size : 1;
  void* const memory =
      alignment ? std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment)
                : std::malloc(wanted);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

CountAllocations::CountAllocations(Allocations& into) {
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads libgcc
  ranges();
  counted = &into;
}

CountAllocations::~CountAllocations() {
  counted = nullptr;
}

}  // namespace accel

// The forms for arrays and those that do not throw call these.
[[gnu::visibility("default")]] void* operator new(size_t size) {
  return accel::allocate(size, 0, __builtin_return_address(0));
}
[[gnu::visibility("default")]] void* operator new(size_t size, std::align_val_t alignment) {
  return accel::allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
[[gnu::visibility("default")]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::visibility("default")]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
[[gnu::visibility("default")]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::visibility("default")]] void operator delete(void* memory, size_t,
                                                    std::align_val_t) noexcept {
  std::free(memory);
}
