#include "kernels/memory/mkl_buffers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/memory/caching_allocator.h"
#include "tests/unit/kernels/memory/resident_memory.h"

namespace accel::mkl_buffers_test {
namespace {

/// MKL's own variables.
void* mkl_malloc(size_t bytes) {
  return (**static_cast<void* (**)(size_t)>(dlsym(RTLD_DEFAULT, "i_malloc")))(bytes);
}
void mkl_free(void* data) {
  (**static_cast<void (**)(void*)>(dlsym(RTLD_DEFAULT, "i_free")))(data);
}

/// Exits with 0 if a large buffer is free for tensors after the product.
[[noreturn]] void take_large_buffer() {
  use_caching_allocator();
  at::empty({1 << 20});
  void* buffer = mkl_malloc(20 * kMib);
  std::memset(buffer, 1, 20 * kMib);
  mkl_free(buffer);
  const int64_t before = resident_bytes();
  const at::Tensor tensor = at::ones({4 * kMib});
  std::exit(resident_bytes() - before < 4 * kMib && tensor.min().item<float>() == 1 ? 0 : 1);
}

/// Exits with 0 if the next product of a thread takes the same small buffer, whose untouched pages
/// use no memory.
[[noreturn]] void take_small_buffers() {
  use_caching_allocator();
  at::ones({4 * kMib});
  const int64_t before = resident_bytes();
  void* first = mkl_malloc(4 * kMib);
  bool is_right = resident_bytes() < before - 3 * kMib;
  void* second = mkl_malloc(2 * kMib);
  is_right = is_right && first != second;
  mkl_free(first);
  mkl_free(second);
  const at::Tensor other = at::empty({kMib});
  is_right = is_right && other.data_ptr() != first;
  void* again = mkl_malloc(3 * kMib);
  is_right = is_right && again == first;
  mkl_free(again);
  void* smallest = mkl_malloc(100);
  mkl_free(smallest);
  std::exit(is_right ? 0 : 1);
}

/// Exits with 0 if a buffer beside the thread's keeps its pages for the next product.
[[noreturn]] void take_two_buffers() {
  use_caching_allocator();
  at::ones({8 * kMib});
  int64_t faults = 0;
  for (int product = 0; product < 4; ++product) {
    const int64_t before = page_faults();
    void* first = mkl_malloc(4 * kMib);
    void* second = mkl_malloc(4 * kMib);
    std::memset(second, 1, 4 * kMib);
    mkl_free(first);
    mkl_free(second);
    if (product > 0) faults += page_faults() - before;
  }
  std::exit(faults < 100 ? 0 : 1);
}

/// Exits with 0 if MKL keeps no buffers itself and multiplies as before.
[[noreturn]] void multiply() {
  use_caching_allocator();
  const at::Tensor product = at::mm(at::ones({256, 768}), at::ones({50257, 768}).t());
  const auto is_disabled =
      reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "mkl_serv_get_fast_mm_status"));
  const bool is_right = product.min().item<float>() == 768 && product.max().item<float>() == 768;
  std::exit(is_right && is_disabled() == 1 ? 0 : 1);
}

TEST(MklBuffersTest, ALargeBufferIsFreeForTensorsAfterTheProduct) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has not computed yet
  EXPECT_EXIT(take_large_buffer(), testing::ExitedWithCode(0), "");
}

TEST(MklBuffersTest, ASmallBufferStaysWithItsThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(take_small_buffers(), testing::ExitedWithCode(0), "");
}

TEST(MklBuffersTest, ASecondBufferKeepsItsPages) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(take_two_buffers(), testing::ExitedWithCode(0), "");
}

TEST(MklBuffersTest, MklKeepsNone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace accel::mkl_buffers_test
