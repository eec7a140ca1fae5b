#include <cmath>

#include "tests/unit/kernels/cuda/on_device.h"

namespace accel::cuda_test {
namespace {

constexpr double kEps = 1e-5;

/// Inputs in float32 as the type rounds them.
struct NormCase {
  bool is_rms;
  size_t rows, width;
  std::vector<float> x, weight, bias, dy;

  template <class Number>
  static NormCase of(bool is_rms, size_t rows, size_t width) {
    std::vector<float> x = drawn(rows * width, 1, 2);
    for (float& at : x) at += 3;  // a mean beside the variance
    return {is_rms,
            rows,
            width,
            rounded<Number>(x),
            rounded<Number>(drawn(width, 2)),
            rounded<Number>(drawn(width, 3)),
            rounded<Number>(drawn(rows * width, 4))};
  }
};

struct Normalized {
  std::vector<float> y, mean, rstd, dx, weight_grad, bias_grad;
};
struct Exact {
  std::vector<double> y, mean, rstd, dx, weight_grad, bias_grad;
};

Exact exact(const NormCase& of) {
  Exact to = {{}, {}, {}, {}, std::vector<double>(of.width), std::vector<double>(of.width)};
  const auto width = static_cast<double>(of.width);
  for (size_t row = 0; row < of.rows; ++row) {
    const float *x = &of.x[row * of.width], *dy = &of.dy[row * of.width];
    double mean = 0, square = 0, plain = 0, normal = 0;
    for (size_t i = 0; i < of.width && !of.is_rms; ++i) mean += x[i] / width;
    for (size_t i = 0; i < of.width; ++i) square += (x[i] - mean) * (x[i] - mean) / width;
    const double rstd = 1 / std::sqrt(square + kEps);
    for (size_t i = 0; i < of.width; ++i) {
      const double at = (x[i] - mean) * rstd, slope = static_cast<double>(dy[i]) * of.weight[i];
      to.y.push_back(at * of.weight[i] + (of.is_rms ? 0 : of.bias[i]));
      to.weight_grad[i] += dy[i] * at;
      to.bias_grad[i] += dy[i];
      plain += of.is_rms ? 0 : slope / width;
      normal += slope * at / width;
    }
    for (size_t i = 0; i < of.width; ++i) {
      const double at = (x[i] - mean) * rstd;
      to.dx.push_back(rstd * (static_cast<double>(dy[i]) * of.weight[i] - plain - at * normal));
    }
    to.mean.push_back(mean);
    to.rstd.push_back(rstd);
  }
  return to;
}

template <class Number>
Normalized run(const NormCase& of, size_t offset = 0) {
  const OnDevice<Number> x(as<Number>(of.x), offset), weight(as<Number>(of.weight)),
      bias(as<Number>(of.bias)), dy(as<Number>(of.dy)), y(of.x.size()), dx(of.x.size()),
      weight_grad(of.width), bias_grad(of.width);
  const OnDevice<float> mean(of.rows), rstd(of.rows);
  CudaNorm in = {};
  in.type = kTypeOf<Number>;
  in.is_rms = of.is_rms;
  in.rows = static_cast<int64_t>(of.rows);
  in.width = static_cast<int64_t>(of.width);
  in.eps = static_cast<float>(kEps);
  in.x = x.get();
  in.weight = weight.get();
  if (!of.is_rms) in.bias = bias.get();
  in.y = y.get();
  in.mean = of.is_rms ? nullptr : mean.get();
  in.rstd = rstd.get();
  expect_launched(table().norm(&in, nullptr));
  in.dy = dy.get();
  in.dx = dx.get();
  in.weight_grad = weight_grad.get();
  if (!of.is_rms) in.bias_grad = bias_grad.get();
  const OnDevice<float> workspace(static_cast<size_t>(table().norm_workspace(&in)));
  in.workspace = workspace.get();
  expect_launched(table().norm_backward(&in, nullptr));
  return {y.floats(),  mean.floats(),        rstd.floats(),
          dx.floats(), weight_grad.floats(), bias_grad.floats()};
}

template <class Number>
class CudaNormTest : public testing::Test {
 protected:
  static void expect_exact(const NormCase& of, const Normalized& found) {
    const Exact wanted = exact(of);
    const double rounding = kRounding<Number>;
    const double of_sums = 1e-6 * std::sqrt(static_cast<double>(of.rows)) * 10;
    expect_near(found.rstd, wanted.rstd, 1e-6, 0);
    if (!of.is_rms) expect_near(found.mean, wanted.mean, 1e-6, 1e-6);
    expect_near(found.y, wanted.y, rounding, 4e-6);
    expect_near(found.dx, wanted.dx, rounding, 4e-6);
    expect_near(found.weight_grad, wanted.weight_grad, rounding, of_sums);
    if (!of.is_rms) expect_near(found.bias_grad, wanted.bias_grad, rounding, of_sums);
  }
};

TYPED_TEST_SUITE(CudaNormTest, Types);

TYPED_TEST(CudaNormTest, IsThatOfDoublePrecision) {
  // Widths that take one thread, packs, single elements, and column sums beyond shared memory.
  const std::pair<size_t, size_t> sizes[] = {{1, 1},    {5, 7},    {300, 96},  {64, 768},
                                             {3, 1001}, {9, 8192}, {2, 12296}, {9001, 8}};
  for (const auto& [rows, width] : sizes) {
    for (const bool is_rms : {false, true}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width) + (is_rms ? " rms" : ""));
      const NormCase of = NormCase::of<TypeParam>(is_rms, rows, width);
      this->expect_exact(of, run<TypeParam>(of));
    }
  }
}

/// With a branch, and a gradient of the sum's other uses; y, dy and the branch are of type Out.
template <class Number, class Out>
void expect_exact_with_branch(bool is_rms, size_t rows, size_t width) {
  NormCase of = NormCase::of<Number>(is_rms, rows, width);
  of.dy = rounded<Out>(of.dy);
  const std::vector<float> branch = rounded<Out>(drawn(rows * width, 5));
  const std::vector<float> dsum = rounded<Number>(drawn(rows * width, 6));
  const OnDevice<Number> x(as<Number>(of.x)), weight(as<Number>(of.weight)),
      bias(as<Number>(of.bias)), sum(rows * width), slopes(as<Number>(dsum)), dx(rows * width),
      weight_grad(width), bias_grad(width);
  const OnDevice<Out> added(as<Out>(branch)), dy(as<Out>(of.dy)), y(rows * width),
      dbranch(rows * width);
  const OnDevice<float> mean(rows), rstd(rows);
  CudaNorm in = {};
  in.type = kTypeOf<Number>;
  in.y_type = kTypeOf<Out>;
  in.is_rms = is_rms;
  in.rows = static_cast<int64_t>(rows);
  in.width = static_cast<int64_t>(width);
  in.eps = static_cast<float>(kEps);
  in.x = x.get();
  in.branch = added.get();
  in.sum = sum.get();
  in.weight = weight.get();
  if (!is_rms) in.bias = bias.get();
  in.y = y.get();
  in.mean = is_rms ? nullptr : mean.get();
  in.rstd = rstd.get();
  expect_launched(table().norm(&in, nullptr));
  in.x = sum.get();
  in.branch = in.sum = nullptr;
  in.dy = dy.get();
  in.dsum = slopes.get();
  in.dx = dx.get();
  in.dbranch = dbranch.get();
  in.weight_grad = weight_grad.get();
  if (!is_rms) in.bias_grad = bias_grad.get();
  const OnDevice<float> workspace(static_cast<size_t>(table().norm_workspace(&in)));
  in.workspace = workspace.get();
  expect_launched(table().norm_backward(&in, nullptr));
  for (size_t i = 0; i < of.x.size(); ++i) of.x[i] += branch[i];
  of.x = rounded<Number>(of.x);
  EXPECT_EQ(sum.floats(), of.x);
  Exact wanted = exact(of);
  for (size_t i = 0; i < wanted.dx.size(); ++i) wanted.dx[i] += dsum[i];
  const double of_sums = 1e-6 * std::sqrt(static_cast<double>(rows)) * 10;
  expect_near(y.floats(), wanted.y, kRounding<Out>, 4e-6);
  expect_near(dx.floats(), wanted.dx, kRounding<Number>, 4e-6);
  EXPECT_EQ(dbranch.floats(), rounded<Out>(dx.floats()));
  expect_near(weight_grad.floats(), wanted.weight_grad, kRounding<Number>, of_sums);
  if (!is_rms) expect_near(bias_grad.floats(), wanted.bias_grad, kRounding<Number>, of_sums);
}

TEST(CudaResidualNormTest, AddsABranchAndTheGradientOfOtherUses) {
  const std::pair<size_t, size_t> sizes[] = {{5, 7}, {64, 768}, {3, 1001}, {40, 1600}};
  for (const auto& [rows, width] : sizes) {
    for (const bool is_rms : {false, true}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width) + (is_rms ? " rms" : ""));
      expect_exact_with_branch<float, float>(is_rms, rows, width);
      expect_exact_with_branch<float, Bf16>(is_rms, rows, width);
      expect_exact_with_branch<Bf16, Bf16>(is_rms, rows, width);
    }
  }
}

TYPED_TEST(CudaNormTest, AddressesNeedNotBeMultiplesOf16) {
  const NormCase of = NormCase::of<TypeParam>(false, 40, 64);
  this->expect_exact(of, run<TypeParam>(of, 1));
}

TYPED_TEST(CudaNormTest, EqualInputsGiveEqualBits) {
  const NormCase of = NormCase::of<TypeParam>(false, 500, 64);
  const Normalized one = run<TypeParam>(of), other = run<TypeParam>(of);
  EXPECT_EQ(one.y, other.y);
  EXPECT_EQ(one.dx, other.dx);
  EXPECT_EQ(one.weight_grad, other.weight_grad);
  EXPECT_EQ(one.bias_grad, other.bias_grad);
}

TYPED_TEST(CudaNormTest, WithoutWeightAndBiasNothingIsSummed) {
  NormCase of = NormCase::of<TypeParam>(false, 6, 32);
  of.weight.assign(32, 1);
  of.bias.assign(32, 0);
  const Normalized wanted = run<TypeParam>(of);
  const OnDevice<TypeParam> x(as<TypeParam>(of.x)), dy(as<TypeParam>(of.dy)), y(of.x.size()),
      dx(of.x.size());
  const OnDevice<float> mean(of.rows), rstd(of.rows);
  CudaNorm in = {};
  in.type = kTypeOf<TypeParam>;
  in.rows = 6;
  in.width = 32;
  in.eps = static_cast<float>(kEps);
  in.x = x.get();
  in.y = y.get();
  in.mean = mean.get();
  in.rstd = rstd.get();
  in.dy = dy.get();
  in.dx = dx.get();
  EXPECT_EQ(table().norm_workspace(&in), 0);
  expect_launched(table().norm(&in, nullptr));
  expect_launched(table().norm_backward(&in, nullptr));
  EXPECT_EQ(y.floats(), wanted.y);
  EXPECT_EQ(dx.floats(), wanted.dx);
}

}  // namespace
}  // namespace accel::cuda_test
