#include "kernels/memory/tensor_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/unit/kernels/memory/resident_memory.h"

namespace accel::tensor_heap_test {
namespace {

/// A heap over reserved addresses.
struct Fixture {
  static constexpr int64_t kReserved = int64_t{1} << 32;
  char* begin = static_cast<char*>(
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  TensorHeap heap{begin, kReserved};
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

TEST(TensorHeapTest, AClearBlockTakesMemoryWhenItIsTouched) {
  Fixture made;
  made.heap.give_back(made.filled(16 * kMib));
  const int64_t before = resident_bytes();
  auto* block = static_cast<char*>(made.heap.take_clear(16 * kMib));
  EXPECT_LT(resident_bytes(), before - 15 * kMib);
  EXPECT_EQ(block[8 * kMib], 0);
}

}  // namespace
}  // namespace accel::tensor_heap_test
