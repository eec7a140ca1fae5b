#include "kernels/residual_norm.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <string>
#include <vector>

#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::residual_norm_test {
namespace {

constexpr double kEps = 1e-5;

/// Memory that kernels do not write is NaN.
class ResidualNormTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(5);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    ASSERT_TRUE(at::empty({1}).isnan().item<bool>());
  }
  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
    at::set_num_threads(1);
    use_kernels(Kernels::kReference);
  }
};

at::Tensor leaf(at::IntArrayRef sizes, double mean = 0) {
  return (at::randn(sizes) + mean).requires_grad_();
}

at::Tensor exact(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(at::kDouble).requires_grad_() : tensor;
}

struct Inputs {
  at::Tensor x, branch, weight, bias;  ///< branch and bias: undefined for none

  std::vector<at::Tensor> leaves() const {
    std::vector<at::Tensor> all = {x, weight};
    for (const at::Tensor& tensor : {branch, bias}) {
      if (tensor.defined()) all.push_back(tensor);
    }
    return all;
  }
};

struct InputsCase {
  std::vector<int64_t> sizes;
  bool has_branch = true, has_bias = true;
  double mean = 0;
};

Inputs drawn(const InputsCase& of) {
  const int64_t width = of.sizes.back();
  return {leaf(of.sizes, of.mean), of.has_branch ? leaf(of.sizes) : at::Tensor(), leaf({width}, 1),
          of.has_bias ? leaf({width}) : at::Tensor()};
}

ResidualNorm normed(const Inputs& in) {
  return residual_norm(in.x, in.branch.defined() ? std::optional(in.branch) : std::nullopt,
                       {.weight = in.weight, .bias = in.bias, .eps = kEps});
}

bool is_fused(const ResidualNorm& of) {
  return of.normed.grad_fn()->name().find("NativeLayerNorm") == std::string::npos;
}

void expect_close(const at::Tensor& found, const at::Tensor& wanted, const std::string& where,
                  double most = 1e-6) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << where;
  const double largest = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LT((found - wanted).abs().max().item<double>() / largest, most) << where;
}

/// Uses of the results.
struct Slopes {
  at::Tensor sum, normed;  ///< sum: undefined for no use
};

std::vector<at::Tensor> gradients(const Inputs& in, const Slopes& slopes) {
  const ResidualNorm of = normed(in);
  if (!slopes.sum.defined())
    return torch::autograd::grad({of.normed}, in.leaves(), {slopes.normed});
  return torch::autograd::grad({of.sum, of.normed}, in.leaves(), {slopes.sum, slopes.normed});
}

TEST_F(ResidualNormTest, ValuesAndGradientsAreThoseOfDoubles) {
  const InputsCase cases[] = {{{4096, 128}},
                              {{3, 70, 33}, false},
                              {{1001, 48}, true, false},
                              {{2, 5, 1000}, false, false},
                              {{70, 31}, true, true, 300},
                              {{9, 1}},
                              {{1, 200000}}};
  for (const InputsCase& c : cases) {
    const Inputs in = drawn(c);
    const Inputs wide = {exact(in.x), exact(in.branch), exact(in.weight), exact(in.bias)};
    for (const bool uses_sum : {true, false}) {
      const std::string where = std::to_string(c.sizes.back()) + (uses_sum ? " with the sum" : "");
      const ResidualNorm found = normed(in), wanted = normed(wide);
      ASSERT_TRUE(is_fused(found)) << where;
      ASSERT_FALSE(is_fused(wanted)) << where;
      const double most = c.mean > 0 ? 1e-4 : 1e-6;  // the numbers have as many digits less
      expect_close(found.sum.detach(), wanted.sum.detach(), where);
      expect_close(found.normed.detach(), wanted.normed.detach(), where, most);
      const at::Tensor dsum = uses_sum ? at::randn(c.sizes) : at::Tensor();
      const at::Tensor dy = at::randn(c.sizes);
      const auto slopes = gradients(in, {dsum, dy});
      const auto exact_ones =
          gradients(wide, {uses_sum ? dsum.to(at::kDouble) : dsum, dy.to(at::kDouble)});
      for (size_t i = 0; i < slopes.size(); ++i) {
        expect_close(slopes[i], exact_ones[i], where + ", gradient " + std::to_string(i), most);
      }
    }
  }
}

TEST_F(ResidualNormTest, ThreadsDoNotChangeBits) {
  const Inputs in = drawn({{3000, 96}});
  const at::Tensor dsum = at::randn({3000, 96}), dy = at::randn({3000, 96});
  const auto all = [&](int threads) {
    at::set_num_threads(threads);
    std::vector<at::Tensor> out = gradients(in, {dsum, dy});
    out.push_back(normed(in).normed.detach());
    return out;
  };
  const auto one = all(1), three = all(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST_F(ResidualNormTest, TheSumAloneHasItsGradient) {
  const Inputs in = drawn({{30, 8}});
  const at::Tensor dsum = at::randn({30, 8});
  const auto found = torch::autograd::grad({normed(in).sum}, {in.x, in.branch}, {dsum});
  for (const at::Tensor& gradient : found) EXPECT_TRUE(gradient.equal(dsum));
}

TEST_F(ResidualNormTest, FrozenTensorsHaveNoGradients) {
  const at::Tensor dy = at::randn({30, 8});
  for (size_t frozen = 0; frozen < 4; ++frozen) {
    const Inputs in = drawn({{30, 8}});
    const std::vector<at::Tensor> all = in.leaves();
    const auto wanted = gradients(in, {dy, dy});
    all[frozen].requires_grad_(false);
    const ResidualNorm of = normed(in);
    torch::autograd::backward({of.sum, of.normed}, {dy, dy});
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].grad().defined(), i != frozen) << i;
      if (i != frozen) {
        EXPECT_TRUE(all[i].grad().equal(wanted[i])) << i;
      }
    }
  }
}

TEST_F(ResidualNormTest, GradientsThatAreNotContiguous) {
  const Inputs in = drawn({{40, 16}});
  const at::Tensor turned = at::randn({16, 40}).t(), dense = turned.contiguous();
  const auto found = gradients(in, {turned, turned}), wanted = gradients(in, {dense, dense});
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

TEST_F(ResidualNormTest, WithoutGradientsTheValuesAreTheSame) {
  const Inputs in = drawn({{30, 8}});
  const ResidualNorm trained = normed(in);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(normed(in).sum.equal(trained.sum));
  EXPECT_TRUE(normed(in).normed.equal(trained.normed));
}

TEST_F(ResidualNormTest, AtenComputesOthers) {
  const Inputs in = drawn({{30, 8}});
  EXPECT_TRUE(is_fused(normed(in)));
  Inputs turned = in;
  turned.x = leaf({8, 30}).t();
  EXPECT_FALSE(is_fused(normed(turned)));
  Inputs of_one_row = in;
  of_one_row.branch = leaf({1, 8});
  EXPECT_FALSE(is_fused(normed(of_one_row)));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_FALSE(is_fused(normed(in)));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  const ReferenceKernels here;
  EXPECT_FALSE(is_fused(normed(in)));
}

}  // namespace
}  // namespace accel::residual_norm_test
