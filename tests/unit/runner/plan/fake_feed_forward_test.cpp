#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/cpu_operators.h"
#include "kernels/feed_forward.h"
#include "runner/plan/fake_tensor_mode.h"

namespace accel::fake_feed_forward_test {
namespace {

constexpr int64_t kRows = 512, kWidth = 64, kInner = 256;
constexpr int64_t kParts = 1;  // of its rows, with sums of gradients of their own
constexpr double kFlopsOfProduct = 2.0 * kRows * kWidth * kInner;

at::Tensor leaf(at::IntArrayRef sizes) {
  return at::empty(sizes).requires_grad_();
}

TEST(FakeFeedForwardTest, KeepsTheInputsOfGeluAlone) {
  use_kernels(Kernels::kFused);
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const FeedForward layers = {{leaf({kInner, kWidth}), leaf({kInner})},
                              {leaf({kWidth, kInner}), leaf({kWidth})},
                              GeluForm::kTanh};
  const at::Tensor x = leaf({kRows, kWidth}), dy = at::empty({kRows, kWidth});
  ASSERT_TRUE(is_narrow_feed_forward(x, layers, MeasuredCpu::kIntelAvx512));
  const int64_t before = meter->live_bytes();
  const at::Tensor y = feed_forward(x, layers);
  EXPECT_EQ(meter->live_bytes() - before, 4 * kRows * (kInner + kWidth));
  EXPECT_EQ(meter->flops(), 2 * kFlopsOfProduct);
  y.backward(dy);
  EXPECT_EQ(meter->flops(), 6 * kFlopsOfProduct);
  EXPECT_GE(meter->peak_bytes() - before,
            4 * (kRows * (kInner + 2 * kWidth) + 2 * (1 + kParts) * kInner * kWidth));
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  EXPECT_EQ(layers.out.weight.grad().sizes(), layers.out.weight.sizes());
  use_kernels(Kernels::kReference);
}

}  // namespace
}  // namespace accel::fake_feed_forward_test
