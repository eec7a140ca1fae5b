// Operators on tensors of a device, by its kernels, against the CPU's.
#include <ATen/autocast_mode.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/adam.h"
#include "kernels/cpu_operators.h"
#include "kernels/cross_entropy.h"
#include "kernels/cuda_library.h"
#include "kernels/cuda_vocabulary_loss.h"
#include "kernels/gelu.h"
#include "kernels/load_cuda_kernels.h"
#include "kernels/residual_norm.h"
#include "kernels/swiglu.h"
#include "tests/host_device/host_device.h"

namespace accel::gpu_kernels_test {
namespace {

constexpr int64_t kIgnored = -100;

class GpuKernelsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("ACCEL_CUDA_LIBRARY", CUDA_EMULATION, 1);
    ASSERT_EQ(load_cuda_kernels(host_device()), "");
  }
  void SetUp() override {
    at::manual_seed(1);
    use_kernels(Kernels::kFused);
  }
  void TearDown() override { use_kernels(Kernels::kReference); }

  /// Inputs on the CPU and a function of them: values and gradients equal those on the device.
  template <class Function, class Reference>
  static void expect_same(std::vector<at::Tensor> inputs, const Function& function,
                          const Reference& reference, double bound = 2e-6) {
    std::vector<at::Tensor> here, there;
    for (const at::Tensor& input : inputs) {
      here.push_back(input.detach().clone().requires_grad_());
      there.push_back(input.to(host_device()).detach().requires_grad_());
    }
    use_kernels(Kernels::kReference);
    const at::Tensor wanted = reference(here);
    const at::Tensor slope = at::randn(wanted.sizes()).to(wanted.scalar_type());
    wanted.backward(slope);
    use_kernels(Kernels::kFused);
    const int64_t calls = host_device_calls();
    const at::Tensor found = function(there);
    found.backward(slope.to(host_device()));
    EXPECT_GT(host_device_calls(), calls);
    EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
    EXPECT_TRUE(found.detach().cpu().allclose(wanted.detach(), bound, bound));
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(there[i].grad().defined()) << i;
      EXPECT_TRUE(there[i].grad().cpu().allclose(here[i].grad(), 10 * bound, 10 * bound)) << i;
    }
  }
  template <class Function>
  static void expect_same(const std::vector<at::Tensor>& inputs, const Function& function) {
    expect_same(inputs, function, function);
  }
};

using Inputs = std::vector<at::Tensor>;

TEST_F(GpuKernelsTest, NormsOfATenAreTheKernels) {
  const Inputs all = {at::randn({3, 5, 96}), at::randn({96}), at::randn({96})};
  expect_same(all,
              [](const Inputs& in) { return at::layer_norm(in[0], {96}, in[1], in[2], 1e-5); });
  expect_same({all[0]}, [](const Inputs& in) { return at::layer_norm(in[0], {5, 96}); });
  expect_same(
      {all[0], all[1]},
      [](const Inputs& in) { return std::get<0>(at::_fused_rms_norm(in[0], {96}, in[1], 1e-5)); },
      [](const Inputs& in) { return at::rms_norm(in[0], {96}, in[1], 1e-5); });
}

TEST_F(GpuKernelsTest, ShapesOfTheNormsStatisticsAreATens) {
  const at::Tensor x = at::randn({3, 5, 8});
  const auto here = at::native_layer_norm(x, {5, 8}, {}, {}, 1e-5);
  const auto there = at::native_layer_norm(x.to(host_device()), {5, 8}, {}, {}, 1e-5);
  EXPECT_EQ(std::get<1>(there).sizes(), std::get<1>(here).sizes());
  EXPECT_EQ(std::get<2>(there).sizes(), std::get<2>(here).sizes());
}

TEST_F(GpuKernelsTest, OtherNormsAreThoseBefore) {
  const at::Tensor x = at::randn({4, 6}).t().to(host_device());
  expect_same({at::randn({4, 6}, at::kDouble)},
              [](const Inputs& in) { return at::layer_norm(in[0], {6}); });
  EXPECT_TRUE(at::layer_norm(x, {4}).cpu().allclose(at::layer_norm(x.cpu(), {4}), 1e-5, 1e-6));
  use_kernels(Kernels::kReference);
  EXPECT_TRUE(at::layer_norm(x, {4}).cpu().allclose(at::layer_norm(x.cpu(), {4}), 1e-5, 1e-6));
}

/// The sum, used beside its norm as a residual stream is.
at::Tensor stream_after(const Inputs& in, bool is_rms, bool has_branch, double share) {
  const NormRule rule = {.is_rms = is_rms, .weight = in[2], .bias = is_rms ? at::Tensor() : in[3]};
  const ResidualNorm found =
      residual_norm(in[0], has_branch ? std::optional(in[1]) : std::nullopt, rule);
  return found.sum.mul(share).add(found.normed);
}

TEST_F(GpuKernelsTest, ResidualNormIsTheKernels) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Inputs inputs = {at::randn({3, 5, 32}).to(type), at::randn({3, 5, 32}).to(type),
                           at::randn({32}).to(type), at::randn({32}).to(type)};
    for (const bool is_rms : {false, true}) {
      for (const bool has_branch : {false, true}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(type)) + (is_rms ? " rms" : "") +
                     (has_branch ? " branch" : ""));
        Inputs some = inputs;
        if (is_rms) some.pop_back();
        if (!has_branch) some[1] = at::zeros({1});  // no gradient
        const auto function = [&](const Inputs& in) {
          at::Tensor out = stream_after(in, is_rms, has_branch, 0.5);
          return has_branch ? out : out.add(in[1].to(out.scalar_type()).sum());
        };
        expect_same(some, function, function, type == at::kFloat ? 2e-6 : 2e-2);
      }
    }
  }
}

TEST_F(GpuKernelsTest, ResidualNormHasTheTypeOfProductsUnderAutocast) {
  const Inputs inputs = {at::randn({4, 16}), at::randn({4, 16}).to(at::kBFloat16), at::randn({16}),
                         at::randn({16})};
  const auto run = [&](at::Device device) {
    Inputs in;
    for (const at::Tensor& x : inputs) in.push_back(x.to(device).detach().requires_grad_());
    const NormRule rule = {.weight = in[2], .bias = in[3]};
    const ResidualNorm found = residual_norm(in[0], in[1], rule);
    at::Tensor normed = found.normed;
    if (device.is_cpu()) normed = normed.to(at::kBFloat16);  // as a linear layer does
    EXPECT_EQ(normed.scalar_type(), at::kBFloat16);
    found.sum.mul(2).sum().add(normed.square().sum().to(at::kFloat)).backward();
    Inputs out = {found.sum.detach().cpu(), normed.detach().cpu()};
    for (const at::Tensor& x : in) {
      EXPECT_EQ(x.grad().scalar_type(), x.scalar_type());
      out.push_back(x.grad().cpu());
    }
    return out;
  };
  const Inputs wanted = run(at::kCPU);
  const at::DeviceType type = host_device().type();
  at::autocast::set_autocast_enabled(type, true);
  at::autocast::set_autocast_dtype(type, at::kBFloat16);
  const int64_t calls = host_device_calls();
  const Inputs found = run(host_device());
  EXPECT_GT(host_device_calls(), calls);
  at::autocast::set_autocast_enabled(type, false);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double bound = wanted[i].scalar_type() == at::kFloat ? 1e-4 : 1e-2;
    EXPECT_TRUE(found[i].allclose(wanted[i], bound, bound)) << i;
  }
}

TEST_F(GpuKernelsTest, ActivationsAreTheKernels) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double bound = type == at::kFloat ? 2e-6 : 1e-2;
    const Inputs two = {at::randn({7, 33}).to(type), at::randn({7, 33}).to(type)};
    const auto gelu = [](const Inputs& in) { return gelu_tanh(in[0]); };
    expect_same({two[0]}, gelu, gelu, bound);
    const auto gated = [](const Inputs& in) { return swiglu(in[0], in[1]); };
    expect_same(two, gated, gated, bound);
  }
  expect_same({at::randn({7, 16}), at::randn({8, 16}), at::randn({8})},
              [](const Inputs& in) { return linear_gelu(in[0], in[1], in[2]); });
}

TEST_F(GpuKernelsTest, CrossEntropyHasTheGradientInPlaceOfLogitsThatNoOneShares) {
  const at::Tensor targets = at::randint(50, {6}, at::kLong);
  targets[2] = kIgnored;
  const auto loss = [&](const at::Tensor& x) {
    return cross_entropy(x, targets.to(x.device()), kIgnored);
  };
  expect_same({at::randn({6, 50})}, [&](const Inputs& in) { return loss(in[0]); });
  at::Tensor gradient;
  const void* memory = nullptr;
  const auto backward = [&](bool shared, bool retained) {
    const at::Tensor x = at::randn({2, 3, 50}).to(host_device()).requires_grad_();
    at::Tensor kept;
    const at::Tensor mean = [&] {
      const at::Tensor logits = x.mul(2);
      logits.register_hook([&](const at::Tensor& slope) {
        gradient = slope.clone(), memory = slope.const_data_ptr();
      });
      if (shared) kept = logits;
      const void* before = logits.const_data_ptr();
      const at::Tensor out = loss(logits.flatten(0, 1));
      gradient = at::Tensor();
      memory = before;
      return out;
    }();
    const void* const before = memory;
    mean.backward({}, retained);
    return memory == before;
  };
  EXPECT_TRUE(backward(false, false));
  EXPECT_FALSE(backward(true, false));
  EXPECT_FALSE(backward(false, true));
}

TEST_F(GpuKernelsTest, VocabularyLossIsThatOfWholeLogits) {
  constexpr int64_t kTokens = 13, kWidth = 6;
  const auto wide = at::TensorOptions().dtype(at::kFloat);
  for (const int64_t classes : {8, 31}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const double bound = type == at::kFloat ? 2e-6 : 2e-2;
      const at::Tensor targets = at::randint(classes, {kTokens}, at::kLong);
      targets[2] = kIgnored;
      std::vector<at::Tensor> inputs = {at::randn({kTokens, kWidth}, wide),
                                        at::randn({classes, kWidth}, wide),
                                        at::randn({classes}, wide)};
      for (at::Tensor& x : inputs) x = x.to(type).to(at::kFloat).requires_grad_();
      const at::Tensor wanted =
          at::cross_entropy_loss(at::linear(inputs[0], inputs[1], inputs[2]), targets);
      wanted.backward();
      const auto there = [&](const at::Tensor& x) { return x.detach().to(type).to(host_device()); };
      const at::Tensor x = there(inputs[0]), weight = there(inputs[1]), bias = there(inputs[2]),
                       wanted_there = targets.to(host_device());
      for (const int64_t chunk : {5, 13, 100}) {
        SCOPED_TRACE(std::to_string(classes) + " classes in chunks of " + std::to_string(chunk));
        const auto found =
            cuda_vocabulary_loss({x, weight, bias, wanted_there, kIgnored, chunk, true});
        ASSERT_TRUE(found);
        const auto expect = [&](const at::Tensor& a, const at::Tensor& b) {
          EXPECT_TRUE(a.cpu().to(at::kFloat).allclose(b, bound, bound));
        };
        expect(found->mean, wanted.detach());
        expect(found->by_hidden, inputs[0].grad());
        expect(found->by_weight, inputs[1].grad());
        expect(found->by_bias, inputs[2].grad());
      }
    }
  }
}

TEST_F(GpuKernelsTest, VocabularyLossOfMaskedTargetsIsZero) {
  const at::Tensor x = at::randn({3, 4}).to(host_device()),
                   weight = at::randn({9, 4}).to(x.device());
  const at::Tensor targets = at::full({3}, kIgnored, at::kLong).to(x.device());
  const auto found = cuda_vocabulary_loss({x, weight, {}, targets, kIgnored, 2, false});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->mean.cpu().item<float>(), 0);
  EXPECT_EQ(found->by_hidden.cpu().abs().max().item<float>(), 0);
  EXPECT_FALSE(found->by_weight.defined() || found->by_bias.defined());
}

TEST_F(GpuKernelsTest, VocabularyLossIsOfItsDevicesAndTypes) {
  const at::Tensor x = at::randn({3, 4}), weight = at::randn({9, 4});
  const at::Tensor targets = at::full({3}, 1, at::kLong);
  EXPECT_TRUE(has_cuda_vocabulary_loss(host_device()));
  EXPECT_FALSE(has_cuda_vocabulary_loss(at::kCPU));
  EXPECT_FALSE(cuda_vocabulary_loss({x, weight, {}, targets, kIgnored, 2, false}));
  const auto there = [&](const at::Tensor& of) { return of.to(host_device()); };
  EXPECT_FALSE(cuda_vocabulary_loss({there(x.to(at::kDouble)),
                                     there(weight.to(at::kDouble)),
                                     {},
                                     there(targets),
                                     kIgnored,
                                     2,
                                     false}));
}

TEST_F(GpuKernelsTest, AdamIsTheKernels) {
  const AdamRule rule = {.lr = 1e-2,
                         .beta1 = 0.9,
                         .beta2 = 0.999,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .decoupled = true,
                         .amsgrad = false,
                         .maximize = false};
  Inputs p, g, m, v, steps;
  for (const int64_t size : {1, 300, 5000}) {
    p.push_back(at::randn({size}));
    g.push_back(at::randn({size}));
    m.push_back(at::randn({size}));
    v.push_back(at::randn({size}).square());
    steps.push_back(at::full({}, 3, at::kFloat));
  }
  const auto on_device = [](const Inputs& list) {
    Inputs to;
    for (const at::Tensor& tensor : list) to.push_back(tensor.to(host_device()));
    return to;
  };
  const Inputs dp = on_device(p), dg = on_device(g), dm = on_device(m), dv = on_device(v),
               ds = on_device(steps);
  const at::Tensor found_inf = at::ones({}, dp[0].options());
  const int64_t calls = host_device_calls();
  adam_step_(rule, {dp, dg, dm, dv, {}, ds});
  adam_step_(rule, {dp, dg, dm, dv, {}, ds, found_inf});  // is skipped
  EXPECT_EQ(host_device_calls(), calls) << "no operator of ATen ran";
  use_kernels(Kernels::kReference);
  adam_step_(rule, {p, g, m, v, {}, steps});
  for (size_t i = 0; i < p.size(); ++i) {
    EXPECT_TRUE(dp[i].cpu().allclose(p[i], 1e-6, 1e-6));
    EXPECT_TRUE(dm[i].cpu().allclose(m[i], 1e-6, 1e-6));
    EXPECT_TRUE(dv[i].cpu().allclose(v[i], 1e-6, 1e-6));
  }
}

TEST(CudaLibraryTest, EachFaultIsOneLine) {
  const at::Device gpu(at::kCUDA, 1);
  EXPECT_EQ(open_cuda_library("libaccel_none.so", gpu).problem,
            "libaccel_none.so: cannot open shared object file: No such file or directory");
  const std::string libc = open_cuda_library("libc.so.6", gpu).problem;
  EXPECT_NE(libc.find("undefined symbol: accel_cuda_table"), std::string::npos) << libc;
  const std::string next = std::to_string(kCudaTableVersion + 1);
  EXPECT_EQ(open_cuda_library(OTHER_VERSION, gpu).problem,
            "'" OTHER_VERSION "' has version " + next + " of the kernels' interface instead of " +
                std::to_string(kCudaTableVersion));
  EXPECT_EQ(open_cuda_library(NO_DRIVER, gpu).problem,
            "'" NO_DRIVER
            "' on GPU 1: CUDA driver version is insufficient for CUDA runtime version");
}

TEST(CudaLibraryTest, TheCpuHasNone) {
  EXPECT_EQ(cuda_kernels(at::kCPU), nullptr);
}

}  // namespace
}  // namespace accel::gpu_kernels_test
