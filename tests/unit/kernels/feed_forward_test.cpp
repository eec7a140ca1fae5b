#include "kernels/feed_forward.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <string>

#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::feed_forward_test {
namespace {

constexpr auto kCpu = MeasuredCpu::kIntelAvx512;

/// Memory that kernels do not write is NaN.
class FeedForwardTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(3);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    ASSERT_TRUE(at::empty({1}).isnan().item<bool>());
  }
  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
    at::set_num_threads(1);
    use_kernels(Kernels::kReference);
  }
};

at::Tensor leaf(at::IntArrayRef sizes) {
  return (at::randn(sizes) / 4).requires_grad_();
}

FeedForward drawn(int64_t width, int64_t inner, GeluForm gelu) {
  return {{leaf({inner, width}), leaf({inner})}, {leaf({width, inner}), leaf({width})}, gelu};
}

std::vector<at::Tensor> leaves(const at::Tensor& x, const FeedForward& layers) {
  return {x, layers.in.weight, layers.in.bias, layers.out.weight, layers.out.bias};
}

at::Tensor one_by_one(const at::Tensor& x, const FeedForward& layers) {
  const at::Tensor z = at::linear(x, layers.in.weight, layers.in.bias);
  const at::Tensor inner = at::gelu(z, layers.gelu == GeluForm::kTanh ? "tanh" : "none");
  return at::linear(inner, layers.out.weight, layers.out.bias);
}

at::Tensor exact(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).requires_grad_();
}

FeedForward exact(const FeedForward& of) {
  return {{exact(of.in.weight), exact(of.in.bias)},
          {exact(of.out.weight), exact(of.out.bias)},
          of.gelu};
}

void expect_close(const at::Tensor& found, const at::Tensor& wanted, const std::string& where) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << where;
  const double most = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LT((found - wanted).abs().max().item<double>() / most, 5e-6) << where;
}

void expect_those_of_doubles(const at::Tensor& x, const FeedForward& layers,
                             const std::string& where) {
  ASSERT_TRUE(is_narrow_feed_forward(x, layers, kCpu)) << where;
  const at::Tensor wide_x = exact(x);
  const FeedForward wide = exact(layers);
  const at::Tensor y = feed_forward(x, layers), wanted = one_by_one(wide_x, wide);
  expect_close(y.detach(), wanted.detach(), where + ", output");
  const at::Tensor dy = at::randn(y.sizes());
  const auto found = torch::autograd::grad({y}, leaves(x, layers), {dy});
  const auto gradients =
      torch::autograd::grad({wanted}, leaves(wide_x, wide), {exact(dy).detach()});
  for (size_t i = 0; i < found.size(); ++i) {
    expect_close(found[i], gradients[i], where + ", gradient " + std::to_string(i));
  }
}

struct SizesCase {
  std::vector<int64_t> x;
  int64_t inner;
};

TEST_F(FeedForwardTest, ValuesAndGradientsAreThoseOfDoubles) {
  for (const SizesCase& c : {SizesCase{{256, 64}, 256},
                             {{2, 150, 70}, 130},
                             {{1001, 48}, 300},
                             {{4, 13, 8, 16}, 1},
                             {{300, 1}, 40}}) {
    for (const GeluForm gelu : {GeluForm::kTanh, GeluForm::kErf}) {
      const FeedForward layers = drawn(c.x.back(), c.inner, gelu);
      expect_those_of_doubles(leaf(c.x), layers, std::to_string(c.inner));
    }
  }
}

TEST_F(FeedForwardTest, ThreadsDoNotChangeBits) {
  const FeedForward layers = drawn(32, 140, GeluForm::kTanh);
  const at::Tensor x = leaf({2000, 32}), dy = at::randn({2000, 32});
  const auto all = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor y = feed_forward(x, layers);
    std::vector<at::Tensor> out = torch::autograd::grad({y}, leaves(x, layers), {dy});
    out.push_back(y.detach());
    return out;
  };
  const auto one = all(1), three = all(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST_F(FeedForwardTest, WithoutGradientsTheOutputIsTheSame) {
  const FeedForward layers = drawn(24, 200, GeluForm::kErf);
  const at::Tensor x = leaf({300, 24}), y = feed_forward(x, layers);
  EXPECT_NE(y.grad_fn(), nullptr);
  const at::NoGradGuard no_grad;
  const at::Tensor again = feed_forward(x, layers);
  EXPECT_EQ(again.grad_fn(), nullptr);
  EXPECT_TRUE(again.equal(y.detach()));
}

TEST_F(FeedForwardTest, FrozenParametersHaveNoGradients) {
  const at::Tensor dy = at::randn({300, 24});
  for (size_t frozen = 0; frozen < 5; ++frozen) {
    const FeedForward layers = drawn(24, 200, GeluForm::kTanh);
    const at::Tensor x = leaf({300, 24});
    const std::vector<at::Tensor> all = leaves(x, layers);
    const auto wanted = torch::autograd::grad({feed_forward(x, layers)}, all, {dy});
    all[frozen].requires_grad_(false);
    feed_forward(x, layers).backward(dy);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].grad().defined(), i != frozen) << i;
      if (i != frozen) {
        EXPECT_TRUE(all[i].grad().equal(wanted[i])) << i;
      }
    }
  }
}

TEST_F(FeedForwardTest, AGradientThatIsNotContiguous) {
  const FeedForward layers = drawn(16, 32, GeluForm::kTanh);
  const at::Tensor x = leaf({400, 16}), dy = at::randn({16, 400}).t();
  const auto found = torch::autograd::grad({feed_forward(x, layers)}, leaves(x, layers), {dy});
  const auto wanted =
      torch::autograd::grad({feed_forward(x, layers)}, leaves(x, layers), {dy.contiguous()});
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

TEST_F(FeedForwardTest, TakesWhatWasMeasuredToBeFaster) {
  const FeedForward layers = drawn(64, 256, GeluForm::kTanh);
  const at::Tensor x = at::randn({2, 128, 64});
  EXPECT_TRUE(is_narrow_feed_forward(x, layers, kCpu));
  EXPECT_TRUE(is_narrow_feed_forward(x, layers, MeasuredCpu::kAvx2));
  EXPECT_FALSE(is_narrow_feed_forward(x, layers, MeasuredCpu::kUnmeasured));
  EXPECT_FALSE(is_narrow_feed_forward(x.view({256, 64}).narrow(0, 0, 255), layers, kCpu));
  EXPECT_FALSE(is_narrow_feed_forward(x.transpose(0, 1), layers, kCpu));
  EXPECT_FALSE(is_narrow_feed_forward(x.to(at::kBFloat16), layers, kCpu));
  const at::Tensor wide = at::randn({256, 256});
  EXPECT_TRUE(is_narrow_feed_forward(wide, drawn(256, 1024, GeluForm::kTanh), kCpu));
  EXPECT_FALSE(is_narrow_feed_forward(wide, drawn(256, 1025, GeluForm::kTanh), kCpu));
  FeedForward turned = layers;
  turned.out.weight = layers.out.weight.detach().t().contiguous().t();
  EXPECT_FALSE(is_narrow_feed_forward(x, turned, kCpu));
  FeedForward narrower = layers;
  narrower.out = {at::randn({32, 256}), at::randn({32})};
  EXPECT_FALSE(is_narrow_feed_forward(x, narrower, kCpu));
  EXPECT_FALSE(is_narrow_feed_forward(x.view({512, 32}), layers, kCpu));
  FeedForward without_bias = layers;
  without_bias.out.bias = at::Tensor();
  EXPECT_FALSE(is_narrow_feed_forward(x, without_bias, kCpu));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_FALSE(is_narrow_feed_forward(x, layers, kCpu));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  const ReferenceKernels here;
  EXPECT_FALSE(is_narrow_feed_forward(x, layers, kCpu));
}

}  // namespace
}  // namespace accel::feed_forward_test
