#include "kernels/memory/mkl_buffers.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "kernels/memory/caching_allocator.h"

namespace accel::mkl_buffers_test {
namespace {

constexpr int64_t kMib = 1 << 20;

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

/// Exits with 0 if the product with a vocabulary leaves its buffers to tensors.
[[noreturn]] void multiply_with_vocabulary() {
  use_caching_allocator();
  at::set_num_threads(1);
  const at::Tensor hidden = at::ones({256, 768}), vocabulary = at::ones({768, 50257});
  at::Tensor logits = at::mm(hidden, at::ones({768, 64}));  // MKL's tables and code
  logits = at::mm(hidden, vocabulary);
  const bool is_right = logits.min().item<float>() == 768 && logits.max().item<float>() == 768;
  const int64_t before = resident_bytes();
  const at::Tensor takes_the_buffer = at::ones({16 * kMib / 4});
  const int64_t grown = resident_bytes() - before;
  std::fprintf(stderr, "sums are %s, grown by %ld bytes\n", is_right ? "right" : "wrong", grown);
  std::exit(is_right && grown < 4 * kMib ? 0 : 1);
}

TEST(MklBuffersTest, ALargeBufferIsFreeForTensorsAfterTheProduct) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has not computed yet
  EXPECT_EXIT(multiply_with_vocabulary(), testing::ExitedWithCode(0), "");
}

/// Exits with 0 if products of one size take the same buffer without a page fault.
[[noreturn]] void multiply_often() {
  use_caching_allocator();
  at::set_num_threads(1);
  const at::Tensor a = at::ones({512, 512}), b = at::ones({512, 512});
  at::Tensor product = at::empty({512, 512});
  for (int i = 0; i < 3; ++i) at::mm_out(product, a, b);
  const int64_t before = resident_bytes();
  for (int i = 0; i < 30; ++i) at::mm_out(product, a, b);
  std::exit(resident_bytes() - before < kMib / 4 && product.min().item<float>() == 512 ? 0 : 1);
}

TEST(MklBuffersTest, ASmallBufferStaysWithItsThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply_often(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace accel::mkl_buffers_test
