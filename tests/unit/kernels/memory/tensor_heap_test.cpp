#include "kernels/memory/tensor_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/kernels/memory/resident_memory.h"

namespace accel::tensor_heap_test {
namespace {

/// Failures of mremap().
enum class Remap {
  kAsLinux,
  kFails,         ///< after it has unmapped the target
  kOfOneMapping,  ///< also for sources of several mappings, as before Linux 6.17
};
Remap remap = Remap::kAsLinux;
int failures = 0;

int mappings_of(uintptr_t begin, uintptr_t end) {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0, to = 0;
    std::sscanf(line.c_str(), "%lx-%lx", &from, &to);
    found += from < end && to > begin;
  }
  return found;
}

int64_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
}

/// A heap over reserved addresses.
struct Fixture {
  static constexpr int64_t kReserved = int64_t{1} << 32;
  char* begin = static_cast<char*>(
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  int64_t most_mappings = kMostMappings;
  TensorHeap heap{begin, kReserved, most_mappings};
  ~Fixture() { munmap(begin, kReserved); }

  void* filled(int64_t bytes) {
    void* block = heap.take(static_cast<size_t>(bytes));
    std::memset(block, 1, static_cast<size_t>(bytes));
    return block;
  }
};

TEST(TensorHeapTest, HolesBeyondTheBoundTakeNoMemory) {
  Fixture made;
  const int64_t before = resident_bytes();
  void* hole = made.filled(64 * kMib);
  void* behind = made.filled(kMib);
  made.heap.give_back(hole);
  void* larger = made.filled(65 * kMib);  // does not fit into the hole
  EXPECT_LE(made.heap.resident(), 66 * kMib + kMostFragmentation + kMib);
  EXPECT_LE(resident_bytes() - before, 66 * kMib + kMostFragmentation + 2 * kMib);
  made.heap.give_back(larger);
  for (int step = 0; step < 3; ++step) {
    hole = made.filled(60 * kMib);
    made.heap.give_back(hole);
    larger = made.filled(65 * kMib);
    made.heap.give_back(larger);
    EXPECT_LE(resident_bytes() - before, 66 * kMib + kMostFragmentation + 2 * kMib) << step;
  }
  EXPECT_EQ(static_cast<char*>(behind)[kMib - 1], 1) << "a block is not cleared";
}

TEST(TensorHeapTest, SmallHolesStay) {
  Fixture made;
  void* hole = made.filled(kMostFragmentation / 2);
  made.filled(kMib);
  made.heap.give_back(hole);
  made.filled(kMostFragmentation / 2 + kMib);
  EXPECT_EQ(static_cast<char*>(hole)[0], 1) << "cleared pages would cost a fault in each step";
}

/// A block with a value in each page.
struct Filled {
  char* data;
  int64_t bytes;
  char value;

  void fill() const {
    for (int64_t i = 0; i < bytes; i += 4096) data[i] = value;
  }
  bool is_filled() const {
    for (int64_t i = 0; i < bytes; i += 4096) {
      if (data[i] != value) return false;
    }
    return true;
  }
};

/// Takes and frees blocks of up to 12 MiB, at most 160 MiB together, and compares their contents.
void take_and_free_at_random(Fixture& made, int rounds) {
  std::vector<Filled> blocks;
  std::mt19937_64 random(7);
  int64_t all = 0;
  const auto check_and_free = [&](size_t i) {
    ASSERT_TRUE(blocks[i].is_filled());
    made.heap.give_back(blocks[i].data);
    all -= blocks[i].bytes;
    blocks[i] = blocks.back();
    blocks.pop_back();
  };
  for (int i = 0; i < rounds; ++i) {
    const int64_t bytes = kLeastTensorBlock + static_cast<int64_t>(random() % (12 * kMib));
    while (all + bytes > 160 * kMib) check_and_free(random() % blocks.size());
    void* data = made.heap.take(static_cast<size_t>(bytes));
    blocks.push_back({static_cast<char*>(data), bytes, static_cast<char>(random() % 250 + 1)});
    blocks.back().fill();
    all += bytes;
    ASSERT_LE(made.heap.resident(), 161 * kMib + kMostFragmentation);
  }
  while (!blocks.empty()) check_and_free(blocks.size() - 1);
}

TEST(TensorHeapTest, BlocksKeepTheirContents) {
  Fixture made;
  take_and_free_at_random(made, 3000);
}

TEST(TensorHeapTest, WithoutMappingsPagesReturnToTheOs) {
  Fixture made{.most_mappings = 0};
  const int64_t before = mappings();
  take_and_free_at_random(made, 300);
  EXPECT_LE(mappings(), before + 1);  // the part in use and the rest
}

TEST(TensorHeapTest, ANewBlockTakesThePagesOfHoles) {
  Fixture made;
  void* hole = made.filled(64 * kMib);
  made.filled(kMib);
  for (int step = 0; step < 4; ++step) {
    made.heap.give_back(hole);
    const int64_t before = page_faults();
    void* larger = made.filled(65 * kMib);  // does not fit into the hole
    made.heap.give_back(larger);
    hole = made.filled(64 * kMib);
    const int64_t faults = page_faults() - before;
    EXPECT_LT(faults, step > 0 ? 100 : 20000) << "64 MiB have 16,384 pages";
  }
}

TEST(TensorHeapTest, AClearBlockTakesMemoryWhenItIsTouched) {
  Fixture made;
  made.heap.give_back(made.filled(16 * kMib));
  const int64_t before = resident_bytes();
  auto* block = static_cast<char*>(made.heap.take_clear(16 * kMib));
  EXPECT_LT(resident_bytes(), before - 15 * kMib);
  EXPECT_EQ(block[8 * kMib], 0);
}

TEST(TensorHeapTest, MovesPagesOfOneMapping) {
  Fixture made;
  remap = Remap::kOfOneMapping;
  failures = 0;
  take_and_free_at_random(made, 300);
  remap = Remap::kAsLinux;
  EXPECT_EQ(failures, 0);
}

TEST(TensorHeapTest, ATargetThatTheKernelUnmappedIsMappedAgain) {
  Fixture made;
  remap = Remap::kFails;
  failures = 0;
  take_and_free_at_random(made, 300);
  remap = Remap::kAsLinux;
  EXPECT_EQ(failures, 1) << "no more attempts";
}

}  // namespace
}  // namespace accel::tensor_heap_test

/// The C library's, with failures.
extern "C" void* mremap(void* from, size_t old_size, size_t size, int flags, ...) noexcept {
  using namespace accel::tensor_heap_test;
  va_list arguments;
  va_start(arguments, flags);
  void* const to = va_arg(arguments, void*);
  va_end(arguments);
  const auto begin = reinterpret_cast<uintptr_t>(from);
  const bool fails = remap == Remap::kFails ||
                     (remap == Remap::kOfOneMapping && mappings_of(begin, begin + old_size) > 1);
  if (!fails) return reinterpret_cast<void*>(syscall(SYS_mremap, from, old_size, size, flags, to));
  ++failures;
  munmap(to, size);
  errno = EFAULT;
  return MAP_FAILED;
}
