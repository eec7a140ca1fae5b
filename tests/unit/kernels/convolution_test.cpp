#include "kernels/convolution.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <string>
#include <vector>

#include "core/base/array.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::convolution_test {
namespace {

struct ConvolutionCase {
  std::string name;
  Shape x, weight;
  std::vector<int64_t> stride, padding;
  bool has_bias;
};

const ConvolutionCase kSmallImages[] = {
    {"AsInAResNet", {4, 64, 2, 2}, {256, 64, 3, 3}, {1, 1}, {1, 1}, false},
    {"AndItsStride", {2, 128, 4, 4}, {64, 128, 3, 3}, {2, 2}, {1, 1}, true},
    {"AShortcut", {1, 128, 4, 4}, {128, 128, 1, 1}, {2, 2}, {0, 0}, false},
    {"OfUnequalSides", {1, 96, 3, 5}, {256, 96, 1, 3}, {1, 2}, {0, 2}, true},
    {"WiderThanTheImage", {3, 32, 2, 3}, {128, 32, 5, 5}, {1, 1}, {2, 2}, true},
};

class ConvolutionTest : public testing::TestWithParam<ConvolutionCase> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override {
    use_kernels(Kernels::kReference);
    at::set_num_threads(1);
  }
};

/// The output, then the gradients of a weighted sum of it.
std::vector<at::Tensor> passes(const ConvolutionCase& of, std::vector<at::Tensor> in) {
  for (at::Tensor& each : in) each = each.detach().requires_grad_();
  const at::Tensor bias = of.has_bias ? in[2] : at::Tensor();
  std::vector<at::Tensor> out = {at::conv2d(in[0], in[1], bias, of.stride, of.padding)};
  for (const at::Tensor& each : torch::autograd::grad({(out[0] * out[0]).sum()}, in)) {
    out.push_back(each);
  }
  return out;
}

void expect_near(const at::Tensor& found, const at::Tensor& wanted, double tolerance) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_LE((found - wanted).abs().max().item<double>(),
            tolerance * wanted.abs().max().item<double>());
}

TEST_P(ConvolutionTest, IsATensWithItsGradients) {
  at::manual_seed(5);
  const ConvolutionCase& of = GetParam();
  std::vector<at::Tensor> in = {at::randn(of.x), at::randn(of.weight)};
  if (of.has_bias) in.push_back(at::randn(of.weight[0]));
  const std::vector<int64_t> dilation = {1, 1};
  const ConvolutionCall call = {of.stride, of.padding, dilation};
  ASSERT_TRUE(convolves_by_products(in[0], in[1], call, ConvolutionPass::kForward));
  ASSERT_TRUE(convolves_by_products(in[0], in[1], call, ConvolutionPass::kBackward));
  const std::vector<at::Tensor> found = passes(of, in);
  const ReferenceKernels reference;
  const std::vector<at::Tensor> wanted = passes(of, in);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) expect_near(found[i], wanted[i], 3e-6);
}

TEST_P(ConvolutionTest, TakesImagesOfAnyLayout) {
  at::manual_seed(6);
  const ConvolutionCase& of = GetParam();
  std::vector<at::Tensor> in = {at::randn(of.x), at::randn(of.weight)};
  if (of.has_bias) in.push_back(at::randn(of.weight[0]));
  const std::vector<at::Tensor> plain = passes(of, in);
  in[0] = in[0].contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<at::Tensor> last = passes(of, in);
  for (size_t i = 0; i < plain.size(); ++i) expect_near(last[i], plain[i], 3e-6);
}

/// Of bfloat16 where the processor has products of these, and in float32 elsewhere.
TEST_P(ConvolutionTest, OfBfloat16IsRounded) {
  at::manual_seed(8);
  const ConvolutionCase& of = GetParam();
  std::vector<at::Tensor> in = {at::randn(of.x), at::randn(of.weight)};
  if (of.has_bias) in.push_back(at::randn(of.weight[0]));
  for (at::Tensor& each : in) each = each.to(at::kBFloat16);
  const std::vector<int64_t> dilation = {1, 1};
  const ConvolutionCall call = {of.stride, of.padding, dilation};
  EXPECT_EQ(convolves_by_products(in[0], in[1], call, ConvolutionPass::kForward),
            !upcasts(at::kBFloat16));
  const std::vector<at::Tensor> found = passes(of, in);
  const ReferenceKernels reference;
  for (at::Tensor& each : in) each = each.detach().to(at::kFloat);
  const std::vector<at::Tensor> wanted = passes(of, in);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), at::kBFloat16);
    expect_near(found[i].to(at::kFloat), wanted[i], 1.0 / 64);
  }
}

TEST_P(ConvolutionTest, SeveralThreadsComputeTheSame) {
  at::manual_seed(7);
  const ConvolutionCase& of = GetParam();
  std::vector<at::Tensor> in = {at::randn(of.x), at::randn(of.weight)};
  if (of.has_bias) in.push_back(at::randn(of.weight[0]));
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = passes(of, in);
  at::set_num_threads(3);
  const std::vector<at::Tensor> three = passes(of, in);
  // The products are ATen's, whose bits may depend on threads.
  for (size_t i = 0; i < one.size(); ++i) expect_near(three[i], one[i], 3e-6);
}

INSTANTIATE_TEST_SUITE_P(Of, ConvolutionTest, testing::ValuesIn(kSmallImages),
                         [](const auto& info) { return info.param.name; });

struct ChoiceCase {
  Shape x, weight;
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  bool by_products;
};

TEST(ConvolutionChoiceTest, ByProductsWhereWindowsAreFewForTheWeights) {
  const ChoiceCase cases[] = {
      {{16, 512, 2, 2}, {512, 512, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
      {{16, 256, 4, 4}, {512, 256, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, true},
      {{16, 256, 4, 4}, {256, 256, 3, 1}, {1, 1}, {1, 0}, {1, 1}, 1, false},
      {{16, 64, 16, 16}, {64, 64, 5, 5}, {1, 1}, {2, 2}, {1, 1}, 1, false},
      {{16, 512, 2, 2}, {512, 512, 3, 3}, {1, 1}, {2, 2}, {2, 2}, 1, false},
      {{1, 512, 2, 2}, {512, 256, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, false},
      {{1, 512, 2, 2}, {512, 512, 3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, false},  // too large for it
      {{0, 512, 2, 2}, {512, 512, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false},
  };
  for (const ChoiceCase& of : cases) {
    const at::Tensor x = at::rand(of.x), weight = at::rand(of.weight);
    const ConvolutionCall call = {of.stride, of.padding, of.dilation, false, {}, of.groups};
    const auto by_products = [&](const at::Tensor& images, const at::Tensor& by) {
      return convolves_by_products(images, by, call, ConvolutionPass::kForward);
    };
    EXPECT_EQ(by_products(x, weight), of.by_products) << x.sizes();
    EXPECT_FALSE(by_products(x.to(at::kDouble), weight.to(at::kDouble)));
    EXPECT_FALSE(by_products(x, weight.transpose(2, 3)) && of.by_products);
  }
}

}  // namespace
}  // namespace accel::convolution_test
