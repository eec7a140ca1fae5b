#include "runner/plan/fake_operators.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "kernels/cpu/measured_cpu.h"
#include "kernels/cpu_operators.h"
#include "kernels/max_pool.h"
#include "runner/plan/fake_tensor_mode.h"

namespace accel::fake_convolution_test {
namespace {

int64_t in_blocks(int64_t channels) {
  const int64_t block = __builtin_cpu_supports("avx512f") ? 16 : 8;
  return (channels + block - 1) / block * block;
}

struct ConvolutionCase {
  const char* name;
  std::vector<int64_t> x, weight;
  int64_t padding = 0, groups = 1;

  std::vector<int64_t> output() const {
    std::vector<int64_t> sizes = {x[0], weight[0]};
    for (size_t i = 2; i < 4; ++i) sizes.push_back(x[i] + 2 * padding - weight[i] + 1);
    return sizes;
  }
};

int64_t bytes(const std::vector<int64_t>& sizes) {
  int64_t product = 4;
  for (const int64_t size : sizes) product *= size;
  return product;
}

int64_t image_bytes(std::vector<int64_t> sizes) {
  sizes[1] = in_blocks(sizes[1]);
  return bytes(sizes);
}

/// The most that `work` takes beside what there is before it.
int64_t taken(const std::shared_ptr<WorkMeter>& meter, const std::function<void()>& work) {
  const int64_t before = meter->live_bytes();
  EXPECT_LE(meter->peak_bytes(), before) << "something was taken and has gone";
  work();
  return meter->peak_bytes() - before;
}

class DryConvolutionTest : public testing::Test {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }

  static at::Tensor forward(const ConvolutionCase& c) {
    const at::NoGradGuard no_grad;
    return at::convolution(at::empty(c.x), at::empty(c.weight), {}, {1, 1}, {c.padding, c.padding},
                           {1, 1}, false, {0, 0}, c.groups);
  }
};

class DryConvolutionTestOf : public DryConvolutionTest,
                             public testing::WithParamInterface<ConvolutionCase> {
 protected:
  void SetUp() override { use_kernels(Kernels::kReference); }
};

TEST_P(DryConvolutionTestOf, WithOneDnnTakesInputsInBlocksAndThenTheOutputTwice) {
  const ConvolutionCase& c = GetParam();
  const bool first = c.x[1] <= 3;
  const int64_t x = first ? 0 : image_bytes(c.x), y = image_bytes(c.output());
  std::vector<int64_t> filters = c.weight;
  filters[0] = in_blocks(filters[0]);
  if (!first && c.groups == 1) filters[1] = in_blocks(filters[1]);
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const int64_t given = bytes(c.x) + bytes(c.weight);
  EXPECT_EQ(taken(meter, [&] { EXPECT_EQ(forward(c).sizes(), at::IntArrayRef(c.output())); }),
            given + std::max(x + bytes(filters) + y, y + bytes(c.output())));
  EXPECT_EQ(meter->live_bytes(), 0);
}

TEST_P(DryConvolutionTestOf, BackwardTakesEachGradientInBlocksAndThenAsItIs) {
  const ConvolutionCase& c = GetParam();
  const bool first = c.x[1] <= 3;
  std::vector<int64_t> filters = c.weight;
  filters[0] = in_blocks(filters[0]);
  if (!first && c.groups == 1) filters[1] = in_blocks(filters[1]);
  const int64_t dy = image_bytes(c.output()), x = first ? 0 : image_bytes(c.x),
                dx = image_bytes(c.x), dw = bytes(filters);
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const at::NoGradGuard no_grad;
  const at::Tensor input = at::empty(c.x), weight = at::empty(c.weight),
                   grad = at::empty(c.output());
  const int64_t by_input = std::max(dy + dw + dx, dx + bytes(c.x));
  const int64_t by_weight = bytes(c.x) + std::max(dy + x + dw, dw + bytes(c.weight));
  EXPECT_EQ(taken(meter,
                  [&] {
                    at::convolution_backward(grad, input, weight, {}, {1, 1},
                                             {c.padding, c.padding}, {1, 1}, false, {0, 0},
                                             c.groups, {true, true, false});
                  }),
            std::max(by_input, by_weight));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DryConvolutionTestOf,
    testing::Values(ConvolutionCase{"Inner", {8, 20, 12, 12}, {50, 20, 5, 5}},
                    ConvolutionCase{"First", {16, 1, 28, 28}, {20, 1, 5, 5}},
                    ConvolutionCase{"Padded", {4, 64, 14, 14}, {128, 64, 3, 3}, 1},
                    ConvolutionCase{"Grouped", {4, 64, 14, 14}, {64, 1, 3, 3}, 1, 64}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(DryConvolutionTest, ByImageTakesTheColumnsOfEachThread) {
  const ConvolutionCase c{"", {16, 1, 28, 28}, {20, 1, 5, 5}};
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  if (measured_cpu() == MeasuredCpu::kUnmeasured) GTEST_SKIP() << "oneDNN convolves here";
  EXPECT_EQ(taken(meter, [&] { forward(c); }), bytes(c.x) + bytes(c.weight) + bytes(c.output()) +
                                                   bytes({at::get_num_threads(), 5 * 5, 24 * 24}));
}

TEST_F(DryConvolutionTest, ByWinogradTakesTransformedWeightsAndTilesOfEachThread) {
  const ConvolutionCase c{"", {16, 64, 16, 16}, {64, 64, 3, 3}, 1};
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  if (measured_cpu() == MeasuredCpu::kUnmeasured) GTEST_SKIP() << "oneDNN convolves here";
  // Matrices of 6 x 6 numbers for 24 of 64 rows of four tiles; an odd number of cache lines each.
  const int64_t threads = at::get_num_threads(), weights = 64 * 64 + 16, tiles = 24 * 4 * 64 + 16;
  EXPECT_EQ(taken(meter, [&] { forward(c); }),
            bytes(c.x) + bytes(c.weight) + bytes(c.output()) + bytes({36, weights}) +
                bytes({threads, 18, 18, 16}) +
                bytes({std::min<int64_t>(threads, 3), 36, 2 * tiles}));
}

TEST_F(DryConvolutionTest, OfOneSmallImageIsRearrangedForAProduct) {
  const ConvolutionCase c{"", {1, 8, 10, 10}, {6, 8, 3, 3}};
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  EXPECT_EQ(taken(meter, [&] { forward(c); }),
            bytes(c.x) + bytes(c.weight) + bytes({64, 8 * 3 * 3}) + bytes({1, 6, 8, 8}));
}

TEST_F(DryConvolutionTest, ByProductsTakesWhatTheKernelTakesAndDoesTheSameWork) {
  const ConvolutionCase c{"", {2, 256, 4, 4}, {512, 256, 3, 3}, 1};
  const int64_t columns = bytes({2 * 16, 256 * 9}), y = bytes({2, 512, 16});
  for (const Kernels kernels : {Kernels::kFused, Kernels::kReference}) {
    use_kernels(kernels);
    const auto meter = std::make_shared<WorkMeter>();
    const FakeTensorMode scope(meter);
    const int64_t most = taken(meter, [&] { forward(c); }) - bytes(c.x) - bytes(c.weight);
    // The columns, the product, and that with images first; or what the test above says.
    EXPECT_EQ(most, kernels == Kernels::kFused ? std::max(columns + y, y + y)
                                               : std::max(bytes(c.x) + bytes(c.weight) + y, y + y));
    EXPECT_EQ(meter->flops(), 2.0 * 2 * 16 * 512 * 256 * 9);
  }
}

TEST_F(DryConvolutionTest, MaxPoolingKeepsPlacesOf32Bits) {
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  const at::Tensor x = at::empty({4, 8, 10, 10}).requires_grad_();
  const at::Tensor y = max_pool(x, {.window = 2, .stride = 2});
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{4, 8, 5, 5}));
  EXPECT_EQ(meter->live_bytes(), bytes({4, 8, 10, 10}) + 2 * bytes({4, 8, 5, 5}));
}

}  // namespace
}  // namespace accel::fake_convolution_test
