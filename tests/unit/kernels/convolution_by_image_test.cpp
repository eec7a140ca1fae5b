#include "kernels/convolution_by_image.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/base/cpu_target.h"
#include "kernels/convolution.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::convolution_by_image_test {
namespace {

struct ImageCase {
  std::string name;
  Shape x, weight;
  std::vector<int64_t> stride, padding;
  bool has_bias;

  ImageWindows windows() const {
    ImageWindows out = {};
    out.channels = x[1];
    for (size_t i = 0; i < 2; ++i) {
      out.in[i] = x[2 + i];
      out.window[i] = weight[2 + i];
      out.stride[i] = stride[i];
      out.padding[i] = padding[i];
      out.out[i] = (out.in[i] + 2 * padding[i] - out.window[i]) / stride[i] + 1;
    }
    return out;
  }
};

const ImageCase kImageCases[] = {
    {"LeNetsFirst", {18, 1, 28, 28}, {20, 1, 5, 5}, {1, 1}, {0, 0}, true},
    {"LeNetsSecond", {3, 20, 12, 12}, {50, 20, 5, 5}, {1, 1}, {0, 0}, true},
    {"Pointwise", {5, 16, 7, 9}, {24, 16, 1, 1}, {1, 1}, {0, 0}, true},
    {"PointwiseWithSteps", {2, 16, 9, 8}, {24, 16, 1, 1}, {2, 2}, {0, 0}, false},
    {"PointwisePadded", {2, 3, 5, 4}, {5, 3, 1, 1}, {1, 1}, {1, 2}, true},
    {"Patches", {3, 3, 16, 24}, {32, 3, 8, 8}, {8, 8}, {0, 0}, true},
    {"WithSteps", {3, 8, 15, 16}, {12, 8, 3, 3}, {2, 2}, {1, 1}, false},
    {"UnequalSides", {2, 5, 6, 11}, {7, 5, 2, 3}, {3, 2}, {0, 2}, true},
    {"WiderThanTheImage", {2, 3, 3, 2}, {4, 3, 5, 6}, {1, 2}, {2, 3}, true},
    {"InChunks", {2, 24, 40, 100}, {6, 24, 3, 3}, {1, 1}, {1, 1}, true},
    {"ARowPerChunk", {1, 64, 3, 200}, {4, 64, 3, 3}, {1, 1}, {1, 1}, false},
    {"OneWeight", {33, 1, 4, 4}, {1, 1, 1, 1}, {1, 1}, {0, 0}, true},
};

struct Passes {
  at::Tensor y, dx, dweight, dbias;
};

class ConvolutionByImageTest : public testing::TestWithParam<ImageCase> {
 protected:
  ConvolutionByImageTest() {
    at::manual_seed(5);
    const ImageCase& of = GetParam();
    x_ = at::randn(of.x), weight_ = at::randn(of.weight);
    if (of.has_bias) bias_ = at::randn({of.weight[0]});
  }
  void TearDown() override { at::set_num_threads(1); }

  Passes passes(std::array<bool, 3> required = {true, true, true}) const {
    const ImageWindows windows = GetParam().windows();
    Passes out;
    out.y = convolve_by_image(x_, weight_, bias_, windows);
    std::tie(out.dx, out.dweight, out.dbias) =
        convolve_by_image_backward(slopes_of(out.y), x_, weight_, windows, required);
    return out;
  }

  static at::Tensor slopes_of(const at::Tensor& y) {
    at::manual_seed(6);
    return at::randn_like(y);
  }

  at::Tensor x_, weight_, bias_;
};

void expect_near(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_LE((found - wanted).abs().max().item<double>(), 3e-6 * wanted.abs().max().item<double>());
}

TEST_P(ConvolutionByImageTest, IsATensWithItsGradients) {
  const ImageCase& of = GetParam();
  const Passes found = passes();
  const ReferenceKernels reference;
  const std::vector<int64_t> none = {0, 0}, one = {1, 1};
  const at::Tensor x = x_.to(at::kDouble), weight = weight_.to(at::kDouble);
  const std::optional<at::Tensor> bias =
      of.has_bias ? std::optional(bias_.to(at::kDouble)) : std::nullopt;
  const at::Tensor y = at::convolution(x, weight, bias, of.stride, of.padding, one, false, none, 1);
  const std::vector<int64_t> bias_sizes = {of.weight[0]};
  const auto [dx, dweight, dbias] = at::convolution_backward(
      slopes_of(found.y).to(at::kDouble), x, weight, at::OptionalIntArrayRef(bias_sizes), of.stride,
      of.padding, one, false, none, 1, {true, true, true});
  expect_near(found.y, y);
  expect_near(found.dx, dx);
  expect_near(found.dweight, dweight);
  expect_near(found.dbias, dbias);
}

TEST_P(ConvolutionByImageTest, ComputesTheRequiredGradients) {
  const Passes all = passes(), images = passes({true, false, false}),
               weights = passes({false, true, true}), none = passes({false, false, false});
  EXPECT_TRUE(images.dx.equal(all.dx) && weights.dweight.equal(all.dweight));
  EXPECT_TRUE(weights.dbias.equal(all.dbias));
  EXPECT_FALSE(images.dweight.defined() || images.dbias.defined() || weights.dx.defined());
  EXPECT_FALSE(none.dx.defined() || none.dweight.defined() || none.dbias.defined());
}

TEST_P(ConvolutionByImageTest, SeveralThreadsHaveItsBits) {
  const Passes one = passes();
  at::set_num_threads(3);
  const Passes three = passes();
  EXPECT_TRUE(one.y.equal(three.y) && one.dx.equal(three.dx) && one.dweight.equal(three.dweight));
}

INSTANTIATE_TEST_SUITE_P(Of, ConvolutionByImageTest, testing::ValuesIn(kImageCases),
                         [](const auto& info) { return info.param.name; });

/// Whether products of images are faster, forward and backward.
struct Ways {
  bool forward, backward;
};

struct WayCase {
  Shape x, weight;
  int64_t stride, padding;
  Ways avx2, intel_avx512;

  ImageWindows windows() const {
    return ImageCase{"", x, weight, {stride, stride}, {padding, padding}, false}.windows();
  }
  Ways wanted(MeasuredCpu cpu) const {
    if (cpu == MeasuredCpu::kUnmeasured) return {false, false};
    return cpu == MeasuredCpu::kAvx2 ? avx2 : intel_avx512;
  }
};

const WayCase kWays[] = {
    {{2, 1, 28, 28}, {20, 1, 5, 5}, 1, 0, {true, true}, {true, false}},
    {{2, 1, 28, 28}, {6, 1, 5, 5}, 1, 2, {false, true}, {true, true}},
    {{2, 1, 64, 64}, {64, 1, 7, 7}, 2, 3, {false, true}, {true, false}},
    {{2, 3, 32, 32}, {64, 3, 3, 3}, 1, 1, {true, true}, {false, false}},
    {{2, 3, 32, 32}, {20, 3, 5, 5}, 1, 2, {false, true}, {true, false}},
    {{2, 3, 32, 32}, {6, 3, 5, 5}, 1, 0, {false, false}, {true, true}},
    {{2, 3, 64, 64}, {64, 3, 7, 7}, 2, 3, {false, false}, {false, false}},
    {{2, 3, 64, 64}, {192, 3, 8, 8}, 8, 0, {true, true}, {true, false}},
    {{2, 6, 14, 14}, {16, 6, 5, 5}, 1, 0, {false, false}, {false, false}},
    {{2, 12, 28, 28}, {24, 12, 3, 3}, 1, 1, {true, true}, {true, false}},
    {{2, 20, 12, 12}, {50, 20, 5, 5}, 1, 0, {false, true}, {true, true}},
    {{2, 30, 64, 64}, {30, 30, 5, 5}, 1, 2, {false, true}, {false, false}},
    {{2, 50, 16, 16}, {100, 50, 3, 3}, 1, 1, {true, true}, {true, true}},
    {{2, 50, 16, 16}, {12, 50, 3, 3}, 1, 1, {false, false}, {false, false}},
    {{1, 64, 8, 8}, {64, 64, 3, 3}, 1, 1, {false, false}, {false, false}},
    {{2, 64, 16, 16}, {128, 64, 3, 3}, 2, 1, {false, true}, {false, false}},
    {{2, 64, 16, 16}, {128, 64, 1, 1}, 2, 0, {false, true}, {true, true}},
    {{2, 64, 16, 16}, {256, 64, 1, 1}, 1, 0, {true, true}, {false, true}},
    {{512, 256, 4, 4}, {512, 256, 3, 3}, 2, 1, {false, false}, {false, false}},  // four positions
};

TEST(ConvolutionByImageChoiceTest, IsMeasuredByKindOfProcessor) {
  for (const MeasuredCpu cpu :
       {MeasuredCpu::kUnmeasured, MeasuredCpu::kAvx2, MeasuredCpu::kIntelAvx512}) {
    for (const WayCase& of : kWays) {
      SCOPED_TRACE(c10::str(at::IntArrayRef(of.weight), " on ", static_cast<int>(cpu)));
      const auto chosen = [&](ConvolutionPass pass) {
        return is_faster_by_image(of.windows(), of.weight[0], pass, cpu);
      };
      EXPECT_EQ(chosen(ConvolutionPass::kForward), of.wanted(cpu).forward);
      EXPECT_EQ(chosen(ConvolutionPass::kBackward), of.wanted(cpu).backward);
    }
  }
}

TEST(ConvolutionByImageChoiceTest, OfThisProcessorConvolves) {
  for (const WayCase& of : kWays) {
    const at::Tensor x = at::randn(of.x), weight = at::randn(of.weight);
    const std::vector<int64_t> stride = {of.stride, of.stride}, padding = {of.padding, of.padding},
                               dilation = {1, 1};
    const ConvolutionCall call = {stride, padding, dilation};
    const Ways wanted = of.wanted(measured_cpu());
    EXPECT_EQ(convolves_by_products(x, weight, call, ConvolutionPass::kForward), wanted.forward)
        << weight.sizes();
    EXPECT_EQ(convolves_by_products(x, weight, call, ConvolutionPass::kBackward), wanted.backward)
        << weight.sizes();
  }
}

TEST(ConvolutionByImageChoiceTest, KnowsThisProcessor) {
  const MeasuredCpu cpu = measured_cpu();
  EXPECT_EQ(cpu == MeasuredCpu::kAvx2, cpu_target() == CpuTarget::kAvx2);
  EXPECT_EQ(cpu == MeasuredCpu::kIntelAvx512,
            cpu_target() == CpuTarget::kAvx512 && __builtin_cpu_is("intel") != 0);
}

}  // namespace
}  // namespace accel::convolution_by_image_test
