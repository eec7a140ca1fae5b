#include "kernels/winograd.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/convolution.h"
#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::winograd_test {
namespace {

struct WinogradCase {
  std::string name;
  Shape x;
  int64_t out;
  std::vector<int64_t> padding = {1, 1};
  bool has_bias = true;

  Shape weight() const { return {out, x[1], 3, 3}; }

  ImageWindows windows() const {
    ImageWindows all = {};
    all.channels = x[1];
    for (size_t i = 0; i < 2; ++i) {
      all.in[i] = x[2 + i];
      all.window[i] = 3;
      all.stride[i] = 1;
      all.padding[i] = padding[i];
      all.out[i] = x[2 + i] + 2 * padding[i] - 2;
    }
    return all;
  }
};

const WinogradCase kWinogradCases[] = {
    // Tiles of 2 x 2 outputs.
    {"AsInAResNet", {2, 32, 8, 8}, 48},
    {"OddSides", {3, 16, 5, 7}, 16},
    {"OtherChannels", {2, 17, 6, 6}, 33},
    {"FewChannels", {2, 3, 9, 4}, 5},
    {"NotPadded", {2, 16, 7, 6}, 20, {0, 0}, false},
    {"UnequalPadding", {1, 16, 6, 9}, 16, {0, 1}},
    {"WidelyPadded", {2, 16, 5, 4}, 16, {2, 2}},
    {"OnePixel", {1, 16, 1, 1}, 16},
    {"OneWindow", {1, 18, 3, 3}, 16, {0, 0}},
    // Tiles of 4 x 4 outputs.
    {"ManyTiles", {4, 16, 32, 32}, 32},
    {"ManyOddTiles", {3, 18, 30, 33}, 21},
    {"ManyTilesNotPadded", {16, 16, 15, 18}, 16, {0, 0}, false},
    {"ManyTilesPaddedOnOneSide", {8, 16, 19, 17}, 16, {1, 0}},
    {"ManyWidelyPadded", {8, 16, 18, 21}, 16, {2, 2}},
    {"MoreTilesPerRowThanAChunk", {1, 5, 7, 801}, 7},
    {"ManySmallImages", {70, 16, 9, 9}, 16},
};

struct Passes {
  at::Tensor y, dx, dweight, dbias;

  std::array<at::Tensor, 4> all() const { return {y, dx, dweight, dbias}; }
};

/// Memory of at::empty() holds NaN.
class PoisonedMemory {
 public:
  PoisonedMemory() { at::globalContext().setDeterministicAlgorithms(true, false); }
  ~PoisonedMemory() { at::globalContext().setDeterministicAlgorithms(false, false); }
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;
};

class WinogradTest : public testing::TestWithParam<WinogradCase> {
 protected:
  WinogradTest() {
    at::manual_seed(5);
    const WinogradCase& of = GetParam();
    x_ = at::randn(of.x), weight_ = at::randn(of.weight());
    if (of.has_bias) bias_ = at::randn({of.out});
    const ImageWindows windows = of.windows();
    dy_ = at::randn({of.x[0], of.out, windows.out[0], windows.out[1]});
  }
  void TearDown() override { at::set_num_threads(1); }

  Passes passes(std::array<bool, 3> required = {true, true, true}) const {
    const ImageWindows windows = GetParam().windows();
    Passes out;
    out.y = convolve_by_winograd(x_, weight_, bias_, windows);
    std::tie(out.dx, out.dweight, out.dbias) =
        convolve_by_winograd_backward(dy_, x_, weight_, windows, required);
    return out;
  }

  /// Of ATen, of the tensors that `in_double` returns.
  template <typename Convert>
  Passes reference(const Convert& in_double) const {
    const ReferenceKernels kernels;
    const WinogradCase& of = GetParam();
    const std::vector<int64_t> none = {0, 0}, one = {1, 1}, bias_sizes = {of.out};
    const at::Tensor x = in_double(x_), weight = in_double(weight_);
    const std::optional<at::Tensor> bias =
        of.has_bias ? std::optional(in_double(bias_)) : std::nullopt;
    Passes out;
    out.y = at::convolution(x, weight, bias, one, of.padding, one, false, none, 1);
    std::tie(out.dx, out.dweight, out.dbias) =
        at::convolution_backward(in_double(dy_), x, weight, at::OptionalIntArrayRef(bias_sizes),
                                 one, of.padding, one, false, none, 1, {true, true, true});
    return out;
  }

  at::Tensor x_, weight_, bias_, dy_;
};

TEST_P(WinogradTest, IsATensWithItsGradients) {
  const auto found = passes().all();
  const auto wanted = reference([](const at::Tensor& x) { return x.to(at::kDouble); }).all();
  const auto sums = reference([](const at::Tensor& x) { return x.to(at::kDouble).abs(); }).all();
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes());
    const auto error = (found[i] - wanted[i]).abs().max().item<double>();
    EXPECT_LE(error, 2e-6 * sums[i].max().item<double>()) << i;
  }
}

TEST_P(WinogradTest, ComputesTheRequiredGradients) {
  const auto all = passes().all();
  for (size_t only = 0; only <= 3; ++only) {  // 3: none
    std::array<bool, 3> required = {};
    if (only < required.size()) required[only] = true;
    const auto found = passes(required).all();
    for (size_t i = 0; i < required.size(); ++i) {
      ASSERT_EQ(found[1 + i].defined(), required[i]) << i;
      EXPECT_TRUE(!required[i] || found[1 + i].equal(all[1 + i])) << i;
    }
  }
}

TEST_P(WinogradTest, SeveralThreadsHaveItsBits) {
  const auto one = passes().all();
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const auto several = passes().all();
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(several[i])) << i;
  }
}

TEST_P(WinogradTest, ReadsNoUninitializedMemory) {
  const auto wanted = passes().all();
  const PoisonedMemory poisoned;
  ASSERT_FALSE(at::isfinite(at::empty({1})).item<bool>());
  const auto found = passes().all();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, WinogradTest, testing::ValuesIn(kWinogradCases),
                         [](const auto& info) { return info.param.name; });

/// Where Winograd's algorithm is faster on measured processors.
struct WinogradChoice {
  Shape x;
  int64_t out;
  bool forward, backward;
  std::vector<int64_t> padding = {1, 1};
};

const WinogradChoice kWinogradChoices[] = {
    {{16, 64, 16, 16}, 64, true, true},
    {{16, 128, 8, 8}, 128, true, true},
    {{16, 256, 4, 4}, 256, true, true},
    {{16, 512, 2, 2}, 512, false, false},
    {{8, 512, 7, 7}, 512, true, true},
    {{1, 256, 14, 14}, 256, false, false},
    {{1, 64, 56, 56}, 64, true, true},
    {{1, 64, 8, 8}, 64, false, false},
    {{16, 64, 9, 9}, 128, true, true, {0, 0}},
    {{3, 64, 12, 12}, 128, true, false, {0, 0}},  // more tiles for the gradient of the images
    {{16, 16, 32, 32}, 16, true, true},
    {{16, 15, 32, 32}, 64, false, false},
    {{16, 64, 32, 32}, 15, false, false},
    {{32, 3, 32, 32}, 64, false, false},
};

TEST(WinogradChoiceTest, IsMeasuredByKindOfProcessor) {
  for (const MeasuredCpu cpu :
       {MeasuredCpu::kUnmeasured, MeasuredCpu::kAvx2, MeasuredCpu::kIntelAvx512}) {
    const bool measured = cpu != MeasuredCpu::kUnmeasured;
    for (const WinogradChoice& of : kWinogradChoices) {
      const ImageWindows windows = WinogradCase{"", of.x, of.out, of.padding}.windows();
      const auto chosen = [&](ConvolutionPass pass) {
        return is_faster_by_winograd(windows, of.x[0], of.out, pass, cpu);
      };
      SCOPED_TRACE(c10::str(at::IntArrayRef(of.x), " to ", of.out));
      EXPECT_EQ(chosen(ConvolutionPass::kForward), measured && of.forward);
      EXPECT_EQ(chosen(ConvolutionPass::kBackward), measured && of.backward);
    }
  }
}

TEST(WinogradChoiceTest, OfWindowsOf3x3WithStride1) {
  const auto chosen = [](auto change) {
    ImageWindows windows = WinogradCase{"", {16, 64, 16, 16}, 64}.windows();
    change(windows);
    return is_faster_by_winograd(windows, 16, 64, ConvolutionPass::kForward, MeasuredCpu::kAvx2);
  };
  EXPECT_TRUE(chosen([](ImageWindows&) {}));
  EXPECT_FALSE(chosen([](ImageWindows& of) { of.window[0] = 1; }));
  EXPECT_FALSE(chosen([](ImageWindows& of) { of.window[1] = 5; }));
  EXPECT_FALSE(chosen([](ImageWindows& of) { of.stride[0] = 2; }));
  EXPECT_FALSE(chosen([](ImageWindows& of) { of.stride[1] = 2; }));
  EXPECT_FALSE(chosen([](ImageWindows& of) { of.padding[1] = 3; }));
}

TEST(WinogradChoiceTest, OfThisProcessorConvolves) {
  const bool measured = measured_cpu() != MeasuredCpu::kUnmeasured;
  use_kernels(Kernels::kFused);
  at::manual_seed(7);
  const WinogradCase of = {"", {4, 32, 32, 32}, 32};
  const at::Tensor x = at::randn(of.x), weight = at::randn(of.weight()), bias = at::randn({of.out});
  const std::vector<int64_t> one = {1, 1}, none = {0, 0}, sizes = {of.out};
  const at::Tensor y = at::conv2d(x, weight, bias, one, one);
  EXPECT_EQ(y.equal(convolve_by_winograd(x, weight, bias, of.windows())), measured);
  const std::array<bool, 3> required = {true, true, false};
  const auto found = at::convolution_backward(y, x, weight, at::OptionalIntArrayRef(sizes), one,
                                              one, one, false, none, 1, required);
  const auto wanted = convolve_by_winograd_backward(y, x, weight, of.windows(), required);
  EXPECT_EQ(std::get<0>(found).equal(std::get<0>(wanted)), measured);
  EXPECT_EQ(std::get<1>(found).equal(std::get<1>(wanted)), measured);
  use_kernels(Kernels::kReference);
}

}  // namespace
}  // namespace accel::winograd_test
