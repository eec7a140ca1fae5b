#include <cmath>

#include "kernels/cpu/gelu.h"
#include "tests/unit/kernels/cuda/on_device.h"

namespace accel::cuda_test {
namespace {

using Kind = CudaActivation;

double value_at(Kind kind, double x) {
  if (kind == Kind::kGeluErf) return x * 0.5 * std::erfc(-x * std::sqrt(0.5));
  if (kind == Kind::kSwiGlu) return x / (1 + std::exp(-x));
  return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double slope_at(Kind kind, double x) {
  constexpr double kStep = 1e-5;
  return (value_at(kind, x + kStep) - value_at(kind, x - kStep)) / (2 * kStep);
}

struct Activated {
  std::vector<float> y, dx, dup;
};

template <class Number>
Activated run(Kind kind, const std::vector<float>& x, const std::vector<float>& up,
              const std::vector<float>& dy) {
  const OnDevice<Number> from(as<Number>(x)), factor(as<Number>(up)), slope(as<Number>(dy)),
      y(x.size()), dx(x.size()), dup(x.size());
  CudaElementwise in = {};
  in.type = kTypeOf<Number>;
  in.activation = kind;
  in.count = static_cast<int64_t>(x.size());
  in.x = from.get();
  in.y = y.get();
  if (kind == Kind::kSwiGlu) in.up = factor.get();
  expect_launched(table().elementwise(&in, nullptr));
  in.dy = slope.get();
  in.dx = dx.get();
  if (kind == Kind::kSwiGlu) in.dup = dup.get();
  expect_launched(table().elementwise_backward(&in, nullptr));
  return {y.floats(), dx.floats(), dup.floats()};
}

template <class Number>
class CudaElementwiseTest : public testing::Test {};
TYPED_TEST_SUITE(CudaElementwiseTest, Types);

TYPED_TEST(CudaElementwiseTest, IsThatOfDoublePrecision) {
  for (const size_t count : {1U, 8U, 2047U, 4096U}) {
    const auto x = rounded<TypeParam>(drawn(count, 1, 3));
    const auto up = rounded<TypeParam>(drawn(count, 2)), dy = rounded<TypeParam>(drawn(count, 3));
    for (const Kind kind : {Kind::kGeluTanh, Kind::kGeluErf, Kind::kSwiGlu}) {
      SCOPED_TRACE(std::to_string(count) + " of kind " + std::to_string(static_cast<int>(kind)));
      std::vector<double> y, dx, dup;
      for (size_t i = 0; i < count; ++i) {
        const double factor = kind == Kind::kSwiGlu ? up[i] : 1;
        y.push_back(value_at(kind, x[i]) * factor);
        dx.push_back(slope_at(kind, x[i]) * factor * dy[i]);
        dup.push_back(kind == Kind::kSwiGlu ? value_at(kind, x[i]) * dy[i] : 0);
      }
      const Activated found = run<TypeParam>(kind, x, up, dy);
      expect_near(found.y, y, kRounding<TypeParam>, 2e-6);
      expect_near(found.dx, dx, kRounding<TypeParam>, 4e-6);
      expect_near(found.dup, dup, kRounding<TypeParam>, 4e-6);
    }
  }
}

TYPED_TEST(CudaElementwiseTest, LargeInputsAreFinite) {
  const std::vector<float> x = {-3e4F, -200, -90, -20, 20, 90, 200, 3e4F};
  const std::vector<float> ones(x.size(), 1);
  for (const Kind kind : {Kind::kGeluTanh, Kind::kGeluErf, Kind::kSwiGlu}) {
    const Activated found = run<TypeParam>(kind, x, ones, ones);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(found.y[i], x[i] > 0 ? x[i] : 0, 0.01 * std::abs(x[i])) << x[i];
      EXPECT_NEAR(found.dx[i], x[i] > 0 ? 1 : 0, 1e-4) << x[i];
    }
  }
}

TEST(CudaGeluTest, IsThatOfTheCpu) {
  const std::vector<float> x = drawn(5000, 4, 4), dy = drawn(5000, 5);
  std::vector<float> y(x.size()), dx(x.size());
  gelu_tanh_cpu(x.data(), y.data(), static_cast<int64_t>(x.size()));
  gelu_tanh_backward_cpu(dy.data(), x.data(), dx.data(), static_cast<int64_t>(x.size()));
  const Activated found = run<float>(Kind::kGeluTanh, x, {}, dy);
  expect_near(found.y, y, 1e-6, 1e-6);
  expect_near(found.dx, dx, 1e-6, 2e-6);
}

}  // namespace
}  // namespace accel::cuda_test
