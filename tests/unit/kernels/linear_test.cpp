#include "kernels/linear.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <string>

#include "kernels/cpu_operators.h"
#include "kernels/memory/gradient_memory.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::linear_test {
namespace {

constexpr auto kCpu = MeasuredCpu::kIntelAvx512;

/// Memory that kernels do not write is NaN.
class LinearTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(3);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    ASSERT_TRUE(at::empty({1}).isnan().item<bool>());
    if (measured_cpu() == MeasuredCpu::kUnmeasured) GTEST_SKIP() << "not used on this processor";
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

LinearParameters drawn(int64_t inputs, int64_t outputs) {
  return {leaf({outputs, inputs}), leaf({outputs})};
}

std::vector<at::Tensor> leaves(const at::Tensor& x, const LinearParameters& layer) {
  std::vector<at::Tensor> all = {x, layer.weight};
  if (layer.bias.defined()) all.push_back(layer.bias);
  return all;
}

at::Tensor exact(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(at::kDouble).requires_grad_() : tensor;
}

void expect_close(const at::Tensor& found, const at::Tensor& wanted, const std::string& where) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << where;
  const double most = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LT((found - wanted).abs().max().item<double>() / most, 5e-6) << where;
}

void expect_those_of_doubles(const at::Tensor& x, const LinearParameters& layer,
                             const std::string& where) {
  ASSERT_TRUE(has_narrow_gradients(x, layer)) << where;
  const at::Tensor wide_x = exact(x);
  const LinearParameters wide = {exact(layer.weight), exact(layer.bias)};
  const at::Tensor y = linear(x, layer), wanted = at::linear(wide_x, wide.weight, wide.bias);
  ASSERT_EQ(y.grad_fn()->name().find("Addmm"), std::string::npos) << where;
  expect_close(y.detach(), wanted.detach(), where + ", output");
  const at::Tensor dy = at::randn(y.sizes());
  const auto found = torch::autograd::grad({y}, leaves(x, layer), {dy});
  const auto gradients =
      torch::autograd::grad({wanted}, leaves(wide_x, wide), {exact(dy).detach()});
  for (size_t i = 0; i < found.size(); ++i) {
    expect_close(found[i], gradients[i], where + ", gradient " + std::to_string(i));
  }
}

struct SizesCase {
  std::vector<int64_t> x;
  int64_t outputs;
};

TEST_F(LinearTest, ValuesAndGradientsAreThoseOfDoubles) {
  for (const SizesCase& c : {SizesCase{{4096, 64}, 256},
                             {{3, 1500, 70}, 237},
                             {{10007, 33}, 131},
                             {{4, 13, 100, 16}, 210},
                             {{40000, 1}, 40}}) {
    for (const bool has_bias : {true, false}) {
      LinearParameters layer = drawn(c.x.back(), c.outputs);
      if (!has_bias) layer.bias = at::Tensor();
      expect_those_of_doubles(leaf(c.x), layer, std::to_string(c.outputs));
    }
  }
}

TEST_F(LinearTest, ThreadsDoNotChangeBits) {
  const LinearParameters layer = drawn(32, 140);
  const at::Tensor x = leaf({8001, 32}), dy = at::randn({8001, 140});
  const auto all = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor y = linear(x, layer);
    std::vector<at::Tensor> out = torch::autograd::grad({y}, leaves(x, layer), {dy});
    out.push_back(y.detach());
    return out;
  };
  const auto one = all(1), three = all(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST_F(LinearTest, TheOutputIsThatOfAtenWithoutGradients) {
  const LinearParameters layer = drawn(24, 200);
  const at::Tensor x = leaf({6000, 24}), y = linear(x, layer);
  EXPECT_NE(y.grad_fn(), nullptr);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::linear(x, layer.weight, layer.bias).equal(y.detach()));
  EXPECT_TRUE(linear(x, layer).equal(y.detach()));
}

TEST_F(LinearTest, FrozenTensorsHaveNoGradients) {
  const at::Tensor dy = at::randn({6000, 200});
  for (size_t frozen = 0; frozen < 3; ++frozen) {
    const LinearParameters layer = drawn(24, 200);
    const at::Tensor x = leaf({6000, 24});
    const std::vector<at::Tensor> all = leaves(x, layer);
    const auto wanted = torch::autograd::grad({linear(x, layer)}, all, {dy});
    all[frozen].requires_grad_(false);
    linear(x, layer).backward(dy);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].grad().defined(), i != frozen) << i;
      if (i != frozen) {
        EXPECT_TRUE(all[i].grad().equal(wanted[i])) << i;
      }
    }
  }
}

TEST_F(LinearTest, AGradientThatIsNotContiguous) {
  const LinearParameters layer = drawn(16, 128);
  const at::Tensor x = leaf({9000, 16}), dy = at::randn({128, 9000}).t();
  const auto found = torch::autograd::grad({linear(x, layer)}, leaves(x, layer), {dy});
  const auto wanted =
      torch::autograd::grad({linear(x, layer)}, leaves(x, layer), {dy.contiguous()});
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

TEST_F(LinearTest, TheWeightsGradientIsComputedInOfferedMemory) {
  const LinearParameters layer = drawn(16, 128);
  const at::Tensor x = leaf({9000, 16}), dy = at::randn({9000, 128}),
                   memory = at::empty({16 * 128});
  const auto wanted = torch::autograd::grad({linear(x, layer)}, {layer.weight}, {dy});
  GradientMemory offers;
  offers.offer(layer.weight, memory);
  linear(x, layer).backward(dy);
  EXPECT_TRUE(layer.weight.grad().is_alias_of(memory));
  EXPECT_TRUE(layer.weight.grad().equal(wanted[0]));
}

TEST_F(LinearTest, TakesWhatWasMeasuredToBeFaster) {
  const LinearParameters layer = drawn(64, 256);
  const at::Tensor x = at::randn({2, 2048, 64});
  EXPECT_TRUE(has_narrow_gradients(x, layer, kCpu));
  EXPECT_TRUE(has_narrow_gradients(x, layer, MeasuredCpu::kAvx2));
  EXPECT_FALSE(has_narrow_gradients(x, layer, MeasuredCpu::kUnmeasured));
  EXPECT_FALSE(has_narrow_gradients(x.view({4096, 64}).narrow(0, 0, 4095), layer, kCpu));
  EXPECT_FALSE(has_narrow_gradients(x.transpose(0, 1), layer, kCpu));
  EXPECT_FALSE(has_narrow_gradients(x.to(at::kBFloat16), layer, kCpu));
  EXPECT_FALSE(has_narrow_gradients(x.view({8192, 32}), layer, kCpu));
  EXPECT_FALSE(has_narrow_gradients(at::randn({8192, 128}), drawn(128, 128), kCpu));
  EXPECT_TRUE(has_narrow_gradients(at::randn({8192, 128}), drawn(128, 512), kCpu));
  EXPECT_FALSE(has_narrow_gradients(at::randn({8192, 128}), drawn(128, 513), kCpu));
  EXPECT_TRUE(has_narrow_gradients(x, {layer.weight, {}}, kCpu));
  const at::Tensor turned = layer.weight.detach().t().contiguous().t();
  EXPECT_FALSE(has_narrow_gradients(x, {turned, layer.bias}, kCpu));
  EXPECT_FALSE(has_narrow_gradients(x, {layer.weight, at::randn({1})}, kCpu));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_FALSE(has_narrow_gradients(x, layer, kCpu));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  const ReferenceKernels here;
  EXPECT_FALSE(has_narrow_gradients(x, layer, kCpu));
}

}  // namespace
}  // namespace accel::linear_test
