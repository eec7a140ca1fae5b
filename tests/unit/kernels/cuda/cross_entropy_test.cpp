#include <cmath>

#include "kernels/cpu/loops.h"
#include "tests/unit/kernels/cuda/on_device.h"

namespace accel::cuda_test {
namespace {

constexpr int64_t kIgnored = -100;
constexpr float kSlope = 3;
constexpr float kRowSlope = 0.25;

template <class Number>
class CudaCrossEntropyTest : public testing::Test {
 protected:
  struct Found {
    std::vector<float> losses, mean, gradient;
  };

  /// By the forward pass alone, in rows of logits with `padding` more elements, which are poisoned.
  static Found run_in_one_pass(const std::vector<float>& logits,
                               const std::vector<int64_t>& targets, size_t padding) {
    const size_t rows = targets.size(), classes = logits.size() / rows, stride = classes + padding;
    std::vector<float> padded(rows * stride, std::nanf(""));
    for (size_t i = 0; i < logits.size(); ++i)
      padded[i / classes * stride + i % classes] = logits[i];
    const OnDevice<Number> x(as<Number>(padded));
    const OnDevice<int64_t> wanted(targets);
    const OnDevice<float> log_sums(rows), losses(rows), slope(std::vector<float>{kRowSlope});
    CudaCrossEntropy in = {};
    in.type = kTypeOf<Number>;
    in.rows = static_cast<int64_t>(rows);
    in.classes = static_cast<int64_t>(classes);
    in.stride = static_cast<int64_t>(stride);
    in.ignored = kIgnored;
    in.logits = in.gradient = x.get();
    in.targets = wanted.get();
    in.log_sums = log_sums.get();
    in.losses = losses.get();
    in.row_slope = slope.get();
    expect_launched(table().cross_entropy(&in, nullptr));
    return {losses.floats(), {}, x.floats()};
  }

  static Found run(const std::vector<float>& logits, const std::vector<int64_t>& targets,
                   bool in_place) {
    const size_t rows = targets.size();
    const OnDevice<Number> x(as<Number>(logits)), dx(logits.size());
    const OnDevice<int64_t> wanted(targets);
    const OnDevice<float> log_sums(rows), losses(rows), mean(size_t{2});
    const OnDevice<float> slope(std::vector<float>{kSlope});
    CudaCrossEntropy in = {};
    in.type = kTypeOf<Number>;
    in.rows = static_cast<int64_t>(rows);
    in.classes = in.stride = static_cast<int64_t>(logits.size() / rows);
    in.ignored = kIgnored;
    in.logits = x.get();
    in.targets = wanted.get();
    in.log_sums = log_sums.get();
    in.losses = losses.get();
    in.mean = mean.get();
    in.slope = slope.get();
    expect_launched(table().cross_entropy(&in, nullptr));
    in.gradient = in_place ? x.get() : dx.get();
    expect_launched(table().cross_entropy_backward(&in, nullptr));
    return {losses.floats(), mean.floats(), in_place ? x.floats() : dx.floats()};
  }

  /// By the loops of the CPU's kernel.
  static Found of_cpu(const std::vector<float>& logits, const std::vector<int64_t>& targets) {
    const std::vector<float> x = rounded<Number>(logits);
    const auto classes = static_cast<int64_t>(x.size() / targets.size());
    const auto counted = static_cast<float>(
        targets.size() - static_cast<size_t>(std::count(targets.begin(), targets.end(), kIgnored)));
    Found found = {{}, {0, 1 / counted}, std::vector<float>(x.size())};
    for (size_t row = 0; row < targets.size(); ++row) {
      found.losses.push_back(0);
      if (targets[row] == kIgnored) continue;
      const float* from = x.data() + row * static_cast<size_t>(classes);
      float* to = found.gradient.data() + row * static_cast<size_t>(classes);
      float sum = 0;
      log_sum_exp_cpu(from, classes, &sum);
      found.losses[row] = sum - from[targets[row]];
      found.mean[0] += found.losses[row] / counted;
      scaled_softmax_cpu(from, sum, kSlope / counted, to, classes);
      to[targets[row]] -= kSlope / counted;
    }
    return found;
  }

  static std::vector<int64_t> targets_of(int64_t rows, int64_t classes) {
    std::vector<int64_t> targets;
    for (int64_t row = 0; row < rows; ++row) targets.push_back(row * 7919 % classes);
    targets[2] = kIgnored;
    return targets;
  }
};

TYPED_TEST_SUITE(CudaCrossEntropyTest, Types);

TYPED_TEST(CudaCrossEntropyTest, HasTheLossesAndGradientsOfTheCpu) {
  for (const int64_t classes : {1, 2, 65, 4096, 5001, 50304}) {
    SCOPED_TRACE(classes);
    const auto logits = drawn(static_cast<size_t>(7 * classes), 1, 8);
    const auto targets = this->targets_of(7, classes);
    const auto wanted = this->of_cpu(logits, targets);
    for (const bool in_place : {false, true}) {
      const auto found = this->run(logits, targets, in_place);
      expect_near(found.losses, wanted.losses, 1e-6, 4e-6);
      expect_near(found.mean, wanted.mean, 1e-6, 2e-6);
      expect_near(found.gradient, wanted.gradient, 1e-5 + kRounding<TypeParam>, 1e-7);
    }
  }
}

TYPED_TEST(CudaCrossEntropyTest, TheForwardPassWritesTheGradientToo) {
  for (const int64_t classes : {1, 65, 4096, 5001, 50257}) {
    const auto logits = drawn(static_cast<size_t>(7 * classes), 1, 8);
    const auto targets = this->targets_of(7, classes);
    const auto wanted = this->of_cpu(logits, targets);
    for (const size_t padding : {0, 1, 7, 47}) {
      SCOPED_TRACE(std::to_string(classes) + " + " + std::to_string(padding));
      const auto found = this->run_in_one_pass(logits, targets, padding);
      expect_near(found.losses, wanted.losses, 1e-6, 4e-6);
      std::vector<float> gradient, beside;
      const size_t stride = static_cast<size_t>(classes) + padding;
      for (size_t i = 0; i < found.gradient.size(); ++i) {
        const bool is_class = i % stride < static_cast<size_t>(classes);
        (is_class ? gradient : beside).push_back(found.gradient[i]);
      }
      std::vector<float> scaled = wanted.gradient;
      for (float& x : scaled) x *= kRowSlope * 6 / kSlope;  // 6 rows count
      expect_near(gradient, scaled, 1e-5 + kRounding<TypeParam>, 1e-7);
      EXPECT_EQ(beside, std::vector<float>(7 * padding));
    }
  }
}

TYPED_TEST(CudaCrossEntropyTest, EqualInputsGiveEqualBits) {
  const auto logits = drawn(50 * 3000, 2, 4);
  const auto targets = this->targets_of(50, 3000);
  const auto one = this->run(logits, targets, false), other = this->run(logits, targets, true);
  EXPECT_EQ(one.mean, other.mean);
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.gradient, other.gradient);
}

TYPED_TEST(CudaCrossEntropyTest, ATargetThatIsNoClassMakesItsRowAndTheMeanNaN) {
  for (const int64_t target : {-1, 4}) {
    const auto found = this->run(drawn(8, 3), {target, 1}, false);
    EXPECT_TRUE(std::isnan(found.losses[0]) && std::isnan(found.mean[0]));
    EXPECT_TRUE(std::isnan(found.gradient[0])) << "of its row";
    EXPECT_FALSE(std::isnan(found.gradient[4])) << "of another row";
  }
}

TYPED_TEST(CudaCrossEntropyTest, OfNoRowsIsNaNWithoutGradient) {
  const auto found = this->run(drawn(6, 4), {kIgnored, kIgnored}, false);
  EXPECT_TRUE(std::isnan(found.mean[0]));
  EXPECT_EQ(found.gradient, std::vector<float>(6));
}

TYPED_TEST(CudaCrossEntropyTest, LogitsMayBeMinusInfinityAndOthersMakeNaN) {
  std::vector<float> logits = drawn(600, 5);
  logits[40] = -kInfinity;
  const auto masked = this->run(logits, {1}, false);
  EXPECT_TRUE(std::isfinite(masked.mean[0]));
  EXPECT_EQ(masked.gradient[40], 0);
  for (const float odd : {kInfinity, std::nanf("")}) {
    logits[40] = odd;
    EXPECT_TRUE(std::isnan(this->run(logits, {1}, false).mean[0])) << odd;
  }
}

}  // namespace
}  // namespace accel::cuda_test
