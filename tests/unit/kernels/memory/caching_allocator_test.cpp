#include "kernels/memory/caching_allocator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "kernels/memory/tensor_heap.h"

namespace accel::caching_allocator_test {
namespace {

int64_t page_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident;
}

TEST(TensorMemoryTest, WhatIsFreedIsTakenAgainWithoutAPageFault) {
  use_caching_allocator();
  constexpr int64_t kNumbers = 16 << 20;
  at::full({kNumbers}, 1.0F);
  const int64_t before = page_faults();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(at::full({kNumbers}, 2.0F)[kNumbers - 1].item<float>(), 2);
  EXPECT_LT(page_faults() - before, 100);  // one round has 16384 pages
}

TEST(TensorMemoryTest, WhatIsGivenBackIsClearAndOthersStay) {
  use_caching_allocator();
  constexpr int64_t kNumbers = 16 << 20;
  at::Tensor gone = at::full({kNumbers}, 1.0F);
  const at::Tensor stays = at::full({kNumbers}, 3.0F);
  gone.reset();
  const int64_t before = resident_pages();
  give_back_freed_memory();
  EXPECT_LT(resident_pages(), before - 16000);
  EXPECT_EQ(stays.min().item<float>(), 3);
  EXPECT_EQ(at::full({kNumbers}, 4.0F).min().item<float>(), 4);
}

TEST(TensorMemoryTest, BlocksOfAllSizesComeAndGoBare) {
  use_caching_allocator();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  ASSERT_NE(allocator->raw_deleter(), nullptr);
  for (const int64_t bytes :
       {int64_t{1}, kLeastTensorBlock - 1, kLeastTensorBlock, int64_t{9} << 20}) {
    void* data = allocator->raw_allocate(static_cast<size_t>(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0) << bytes;
    static_cast<char*>(data)[bytes - 1] = 1;
    allocator->raw_deallocate(data);
  }
}

TEST(TensorMemoryTest, MoreThanThereIsIsLibtorchsError) {
  use_caching_allocator();
  try {
    at::empty({int64_t{1} << 45}, at::kFloat);
    FAIL() << "there was so much";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("can't allocate memory"), std::string::npos)
        << error.what();
  }
}

TEST(TensorMemoryTest, TheEnvironmentsWordComesFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has not kept any yet
  EXPECT_EXIT(
      {
        setenv("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1000", 1);
        use_caching_allocator();
        std::exit(c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace accel::caching_allocator_test
