// Arrays' memory.
#include "core/base/array.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <new>
#include <thread>

namespace accel::array_test {
namespace {

/// Of a size that no other test asks for.
Array floats(int64_t count) {
  return {DType::kF32, {count}};
}

TEST(ArrayTest, MemoryIsAlignedAndItsOwn) {
  for (int round = 0; round < 2; ++round) {  // of the second, what the first gave back
    std::vector<Array> arrays;
    for (const int64_t count : {0, 1, 300, 301, 301, 5000, 1 << 20})
      arrays.push_back(floats(count));
    for (size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(arrays[i].data()) % 64, 0U);
      for (float& value : arrays[i].mutable_as<float>()) value = static_cast<float>(i);
    }
    for (size_t i = 0; i < arrays.size(); ++i) {
      for (const float value : arrays[i].as<float>()) ASSERT_EQ(value, static_cast<float>(i));
    }
  }
}

#ifndef ACCEL_ASAN
/// Takes what the heap has of that size, so that only blocks that were kept can come again.
class TakenFromHeap {
 public:
  explicit TakenFromHeap(size_t bytes) {
    for (void*& block : blocks_) block = ::operator new (bytes, std::align_val_t{64});
  }
  ~TakenFromHeap() {
    for (void* const block : blocks_) ::operator delete (block, std::align_val_t{64});
  }
  TakenFromHeap(const TakenFromHeap&) = delete;
  TakenFromHeap& operator=(const TakenFromHeap&) = delete;

 private:
  std::array<void*, 32> blocks_;
};

TEST(ArrayTest, ABlockThatWasGivenBackServesTheNextOfItsSize) {
  auto first = std::make_unique<Array>(floats(12345));
  auto shared = std::make_unique<Array>(*first);
  const std::byte* const block = first->data();
  first.reset();
  const Array other = floats(12345);
  EXPECT_NE(other.data(), block);  // `shared` still has it
  std::thread([&] { shared.reset(); }).join();
  const TakenFromHeap rest(12345 * sizeof(float));
  EXPECT_EQ(floats(12345).data(), block);
}

TEST(ArrayTest, BlocksOfSeveralSizesAreKept) {
  const std::byte* const small = floats(1111).data();
  const std::byte* const large = floats(99999).data();
  const TakenFromHeap rest(1111 * sizeof(float)), more(99999 * sizeof(float));
  EXPECT_EQ(floats(1111).data(), small);
  EXPECT_EQ(floats(99999).data(), large);
}
#endif

}  // namespace
}  // namespace accel::array_test
