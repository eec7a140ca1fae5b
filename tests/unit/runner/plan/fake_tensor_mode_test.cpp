#include "runner/plan/fake_tensor_mode.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <gtest/gtest.h>

#include "kernels/cpu/upcast.h"
#include "kernels/cpu_operators.h"
#include "tests/unit/formats/test_bytes.h"
#include "train/job/torch_setup.h"

namespace accel::fake_tensor_mode_test {
namespace {

TEST(DryScopeTest, NothingIsComputedAndShapesAreRight) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  const at::Tensor a = at::randn({3, 4});
  EXPECT_EQ(a.sum().item<double>(), 1);
  EXPECT_EQ(a.gt(0).any().item<bool>(), true);
  EXPECT_EQ(at::where(a.gt(0), a, a.select(0, 1)).sizes(), (at::IntArrayRef{3, 4}));
  EXPECT_EQ(at::stack(at::_foreach_norm({a, a}, 2)).sizes(), at::IntArrayRef{2});
  EXPECT_EQ(at::dropout(a, 0.5, true).sizes(), (at::IntArrayRef{3, 4}));
  EXPECT_EQ(a.to(at::kBFloat16).cumsum(0).scalar_type(), at::kBFloat16);
  EXPECT_EQ(at::nonzero(a).sizes(), (at::IntArrayRef{0, 2}));  // of zeros, as the kernel sees them
  at::Tensor out = at::empty({0});
  at::arange_out(out, 0, 7, 1);
  EXPECT_EQ(out.sizes(), at::IntArrayRef{7});
}

TEST(DryScopeTest, AMemoryLimitEndsThePlanAtItsPeak) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  {
    const FakeMemoryLimit limit(1000);
    const at::Tensor held = at::empty({200});
    at::empty({50});
    try {
      at::empty({51});
      at::empty({0});
      ADD_FAILURE() << "above the limit";
    } catch (const MemoryLimitError& error) {
      EXPECT_STREQ(error.what(), "the tensors of a rank take more than 1000 bytes");
    }
  }
  EXPECT_NO_THROW(at::empty({1000}));
}

TEST(DryScopeTest, AFlipIsNotComputed) {
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const at::Tensor flipped = at::arange(6).view({2, 3}).add(1).flip(1);
  EXPECT_EQ(flipped.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(flipped.scalar_type(), at::kLong);
}

TEST(DryScopeTest, ProductsOf16BitsTakeWhatTheyTakeInFloat32WhereTheyAreComputedSo) {
  for (const Kernels kind : {Kernels::kFused, Kernels::kReference}) {
    use_kernels(kind);
    const auto meter = std::make_shared<WorkMeter>();
    const FakeTensorMode scope(meter);
    const at::Tensor a = at::empty({1000, 100}, at::kBFloat16),
                     b = at::empty({100, 10}, at::kBFloat16);
    const int64_t before = meter->live_bytes();
    const at::Tensor c = at::mm(a, b);
    EXPECT_EQ(c.scalar_type(), at::kBFloat16);
    EXPECT_EQ(c.sizes(), (at::IntArrayRef{1000, 10}));
    EXPECT_EQ(meter->live_bytes(), before + 20'000);
    const bool wide = kind == Kernels::kFused && upcasts(at::kBFloat16);
    EXPECT_EQ(meter->peak_bytes(), before + 20'000 + (wide ? 400'000 + 4'000 + 40'000 : 0));
  }
  use_kernels(Kernels::kReference);
}

TEST(DryScopeTest, AThreadKeepsTheLargestBufferOfItsProductsThatIsSmall) {
  constexpr int64_t kBlock = 4'598'328;
  const int before = at::get_num_threads();
  constexpr int threads = 2;
  at::set_num_threads(threads);
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const auto multiply = [](int64_t m, int64_t k, int64_t n) {
    at::mm(at::empty({m, k}), at::empty({k, n}));
  };
  multiply(1, 4096, 4096);  // a vector
  multiply(63, 64, 64);     // too little
  EXPECT_EQ(meter->packing_bytes(), 0);
  multiply(64, 100, 64 * threads);
  const int64_t narrow = threads * (kBlock + 4 * 100 * 64);
  EXPECT_EQ(meter->packing_bytes(), narrow) << "each thread has its part";
  multiply(64, 99, 64 * threads);
  multiply(64, 100, 64 * threads);
  EXPECT_EQ(meter->packing_bytes(), narrow) << "what there is will do";
  at::addmm(at::empty({1000}), at::empty({200, 500}), at::empty({500, 1000}));
  const int64_t wide = kBlock + 4 * 384 * 1000;
  EXPECT_EQ(meter->packing_bytes(), narrow / threads + wide) << "one for all threads, of 384 rows";
  at::mm(at::empty({2, 8}, at::kBFloat16), at::empty({8, 8}, at::kBFloat16));
  EXPECT_EQ(meter->live_bytes(), 0);
  multiply(64, 384, 30'000);
  EXPECT_EQ(meter->packing_bytes(), narrow / threads + wide) << "a large one is not kept";
  const int64_t tensors = 4 * (64 * 384 + 384 * 30'000 + 64 * 30'000);
  const int64_t buffer = kBlock + 4 * 384 * threads * 9984;  // no wider than 9984 columns a thread
  EXPECT_GE(meter->peak_resident(), tensors + buffer);
  EXPECT_LE(meter->peak_resident(), narrow + wide + tensors + buffer);
  at::set_num_threads(before);
}

TEST(DryScopeTest, ViewsShareMemoryAndWhatGoesIsGivenBack) {
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  {
    const at::Tensor a = at::empty({1000, 10});
    const at::Tensor b = a.t().narrow(0, 2, 3).unsqueeze(0);
    EXPECT_EQ(meter->live_bytes(), 40'000);
    const at::Tensor c = b.contiguous();
    EXPECT_EQ(meter->live_bytes(), 40'000 + 12'000);
    c.add_(1);
    EXPECT_EQ(meter->peak_bytes(), 40'000 + 12'000);
  }
  EXPECT_EQ(meter->live_bytes(), 0);
}

TEST(DryScopeTest, ATimeLimitEndsWhatGoesOnForever) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  const auto wait = [] {
    while (at::empty({1}).item<float>() > 0) continue;  // every number is 1 here
  };
  try {
    const FakeTimeLimit limit(0.01);
    wait();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "planning takes longer than 0.01 s");
  }
  EXPECT_EQ(at::empty({1}).item<float>(), 1) << "the limit has gone";
}

TEST(DryScopeTest, OperationsOfProductsConvolutionsAndAttention) {
  const auto flops = [](const std::function<void()>& work) {
    const auto meter = std::make_shared<WorkMeter>();
    const FakeTensorMode scope(meter);
    work();
    return meter->flops();
  };
  EXPECT_EQ(flops([] { at::mm(at::empty({2, 3}), at::empty({3, 5})); }), 2 * 2 * 3 * 5);
  EXPECT_EQ(flops([] {
              at::addmm(at::empty({5}), at::empty({2, 3}), at::empty({3, 5}));
            }),
            2 * 2 * 3 * 5);
  // 4 x 4 places of 8 channels, each of 3 x 3 x 2 products; by the input and the filters again.
  const auto convolve = [](bool backward) {
    const at::Tensor input = at::empty({1, 2, 4, 4}).requires_grad_(backward);
    const at::Tensor filters = at::empty({8, 2, 3, 3}).requires_grad_(backward);
    const at::Tensor out =
        at::convolution(input, filters, {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
    EXPECT_EQ(out.sizes(), (at::IntArrayRef{1, 8, 4, 4}));
    if (backward) out.sum().backward();
  };
  constexpr double kOnce = 2 * 16 * 8 * 18;
  EXPECT_EQ(flops([&] { convolve(false); }), kOnce);
  EXPECT_EQ(flops([&] { convolve(true); }), 3 * kOnce);
  constexpr double kProduct = 2 * 2 * 3 * 6 * 6 * 5;
  EXPECT_EQ(flops([] {
              const at::Tensor q = at::empty({2, 3, 6, 5}).requires_grad_();
              at::scaled_dot_product_attention(q, q, q, {}, 0, true).sum().backward();
              EXPECT_EQ(q.grad().sizes(), q.sizes());
            }),
            (2 + 5) * kProduct);
}

TEST(DryScopeTest, TheRandomStateIsAsItWas) {
  seed_generator(7);
  const at::Tensor before = generator_state();
  {
    const FakeTensorMode scope(std::make_shared<WorkMeter>());
    seed_generator(8);
    at::randn({100});
  }
  EXPECT_TRUE(generator_state().equal(before));
  EXPECT_NE(at::randn({2}).select(0, 0).item<double>(), 1);
}

TEST(DryScopeTest, LargerThanTheMachine) {
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const at::Tensor a = at::empty({1 << 20, 1 << 20});  // 4 TiB
  EXPECT_EQ(at::mm(a, a.t()).sizes(), a.sizes());
  EXPECT_EQ(meter->peak_bytes(), int64_t{8} << 40);
}

TEST(DryScopeTest, LargerThanAnAddressSpace) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  EXPECT_EQ(
      complaint([] { at::empty({int64_t{1} << 48}); }),
      "cannot reserve 1125899906842624 bytes of address space, which a plan maps but does not use\n"
      "raise the limits of 'ulimit -v' and 'ulimit -d', or plan on another machine");
}

}  // namespace
}  // namespace accel::fake_tensor_mode_test
