#include "core/base/library_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <numeric>

#include "core/base/owned_fd.h"

namespace accel::library_pages_test {
namespace {

constexpr size_t kPage = 4096, kPages = 384;
/// Pages at both ends, which a fault beside them maps again with a folio of the page cache.
constexpr size_t kEdge = 64;

using Pages = std::array<unsigned char, kPages * kPage>;

consteval Pages filled() {
  Pages pages = {};
  for (size_t i = 0; i < pages.size(); i += kPage) pages[i] = 1;
  return pages;
}

alignas(kPage) constexpr Pages kConstants = filled();
alignas(kPage) constinit Pages variables = filled();

/// One of each page.
int sum(const Pages& pages) {
  int total = 0;
  const volatile unsigned char* data = pages.data();
  for (size_t i = 0; i < kPages; ++i) total += data[i * kPage];
  return total;
}

/// How many of the pages from `first` to before `last` are mapped.
size_t resident(const Pages& pages, size_t first = 0, size_t last = kPages) {
  std::array<uint64_t, kPages> entries = {};
  const OwnedFd pagemap = open_fd("/proc/self/pagemap", O_RDONLY);
  const auto page = reinterpret_cast<uintptr_t>(pages.data()) / kPage;
  const auto offset = static_cast<off_t>(page * sizeof(uint64_t));
  EXPECT_EQ(::pread(pagemap.get(), entries.data(), sizeof(entries), offset),
            static_cast<ssize_t>(sizeof(entries)));
  size_t count = 0;
  for (size_t i = first; i < last; ++i) count += entries[i] >> 63U;
  return count;
}

TEST(LibraryPagesTest, ConstantsAreUnmappedAndReadAgain) {
  ASSERT_EQ(sum(kConstants), kPages);
  ASSERT_EQ(resident(kConstants), kPages);
  release_library_pages(LibraryPages::kReadOnly);
  EXPECT_EQ(resident(kConstants, kEdge, kPages - kEdge), 0U);
  EXPECT_EQ(sum(kConstants), kPages);
}

TEST(LibraryPagesTest, WrittenPagesStay) {
  ASSERT_EQ(sum(variables), kPages);
  for (size_t i = 0; i < kPages / 2; ++i) variables[i * kPage] = 3;
  release_library_pages(LibraryPages::kReadOnly);
  EXPECT_EQ(resident(variables), kPages) << "of a writable segment";
  release_library_pages(LibraryPages::kAll);
  EXPECT_EQ(resident(variables), kPages / 2);
  EXPECT_EQ(sum(variables), 2 * kPages);
}

}  // namespace
}  // namespace accel::library_pages_test
