#include "core/base/library_pages.h"

#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/owned_fd.h"

namespace accel {
namespace {

struct Release {
  int pagemap;
  LibraryPages pages;
  uintptr_t page_size;
};

/// Documentation/admin-guide/mm/pagemap.rst of Linux: bit 63 is a present page, bit 61 one of a
/// file. A written page of a private mapping is anonymous.
bool is_page_of_file(uint64_t entry) {
  constexpr uint64_t kPresent = uint64_t{1} << 63U, kFile = uint64_t{1} << 61U;
  return (entry & (kPresent | kFile)) == (kPresent | kFile);
}

void release_range(const Release& release, uintptr_t begin, uintptr_t end) {
  std::array<uint64_t, 512> entries;
  const uintptr_t page = release.page_size;
  while (begin < end) {
    const size_t wanted = std::min<size_t>(entries.size(), (end - begin) / page);
    const ssize_t bytes = ::pread(release.pagemap, entries.data(), wanted * sizeof(uint64_t),
                                  static_cast<off_t>(begin / page * sizeof(uint64_t)));
    const size_t count = bytes > 0 ? static_cast<size_t>(bytes) / sizeof(uint64_t) : 0;
    if (count == 0) return;
    for (size_t first = 0; first < count;) {
      size_t last = first;
      while (last < count && is_page_of_file(entries[last])) ++last;
      if (last > first) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        ::madvise(reinterpret_cast<void*>(begin + first * page), (last - first) * page,
                  MADV_DONTNEED);
      }
      first = last + 1;
    }
    begin += count * page;
  }
}

int release_object(dl_phdr_info* object, size_t /*size*/, void* data) {
  const Release& release = *static_cast<const Release*>(data);
  if (object->dlpi_addr == ::getauxval(AT_SYSINFO_EHDR)) return 0;  // the kernel's, of no file
  for (size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const bool is_writable = (segment.p_flags & PF_W) != 0;
    if (segment.p_type != PT_LOAD || (is_writable && release.pages != LibraryPages::kAll)) continue;
    const uintptr_t begin =
        (object->dlpi_addr + segment.p_vaddr) / release.page_size * release.page_size;
    const uintptr_t end = object->dlpi_addr + segment.p_vaddr + segment.p_filesz;
    release_range(release, begin,
                  (end + release.page_size - 1) / release.page_size * release.page_size);
  }
  return 0;
}

}  // namespace

void release_library_pages(LibraryPages pages) {
  const OwnedFd pagemap = open_fd("/proc/self/pagemap", O_RDONLY);
  if (!pagemap) return;
  Release release = {pagemap.get(), pages, static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE))};
  ::dl_iterate_phdr(&release_object, &release);
}

}  // namespace accel
