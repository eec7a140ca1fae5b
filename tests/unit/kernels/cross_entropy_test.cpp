#include "kernels/cross_entropy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu_operators.h"
#include "tests/unit/memory_meter.h"

namespace accel::cross_entropy_test {
namespace {

constexpr int64_t kIgnored = -100;

class CrossEntropyTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(1);
  }
  void TearDown() override { use_kernels(Kernels::kReference); }

  struct Found {
    at::Tensor loss, gradient;
  };
  static at::Tensor plain(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored) {
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, ignored);
  }
  template <class Loss>
  static Found found_by(Loss loss_of, const at::Tensor& logits, const at::Tensor& targets) {
    const at::Tensor x = logits.detach().clone().requires_grad_();
    const at::Tensor loss = loss_of(x, targets, kIgnored);
    loss.mul(3).backward();
    return {loss.detach(), x.grad()};
  }
};

TEST_F(CrossEntropyTest, HasTheLossAndGradientOfDoublePrecision) {
  for (const int64_t classes : {1, 2, 65, 4096, 5001}) {
    SCOPED_TRACE(classes);
    const at::Tensor logits = at::randn({7, classes}).mul(8);
    at::Tensor targets = at::randint(classes, {7}, at::kLong);
    targets[2] = kIgnored;
    const Found found = found_by(&cross_entropy, logits, targets);
    const Found exact = found_by(&plain, logits.to(at::kDouble), targets);
    EXPECT_TRUE(found.loss.to(at::kDouble).allclose(exact.loss, 1e-6, 1e-6));
    EXPECT_TRUE(found.gradient.to(at::kDouble).allclose(exact.gradient, 1e-5, 1e-6));
    EXPECT_EQ(found.gradient[2].abs().sum().item<float>(), 0);
    EXPECT_EQ(found.loss.scalar_type(), at::kFloat);
  }
}

TEST_F(CrossEntropyTest, ThreadsDoNotChangeBits) {
  const int threads = at::get_num_threads();
  const at::Tensor logits = at::randn({50, 300});
  const at::Tensor targets = at::randint(300, {50}, at::kLong);
  at::set_num_threads(1);
  const Found one = found_by(&cross_entropy, logits, targets);
  at::set_num_threads(3);
  const Found three = found_by(&cross_entropy, logits, targets);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.loss.equal(three.loss));
  EXPECT_TRUE(one.gradient.equal(three.gradient));
}

TEST_F(CrossEntropyTest, TakesTheMemoryOfTheGradientAlone) {
  const at::Tensor logits = at::randn({64, 1000});
  const at::Tensor targets = at::randint(1000, {64}, at::kLong);
  const at::Tensor x = logits.requires_grad_();
  const MemoryMeter made = memory_of([&] { cross_entropy(x, targets, kIgnored).backward(); });
  EXPECT_EQ(made.count(logits.nbytes()), 1);
}

TEST_F(CrossEntropyTest, WhatIsNotFiniteIsAsATens) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor targets = at::full({1}, 1, at::kLong);
  for (const float odd : {infinity, -infinity, std::nanf("")}) {
    at::Tensor logits = at::randn({1, 100});
    logits[0][40] = odd;
    const Found found = found_by(&cross_entropy, logits, targets);
    const Found wanted = found_by(&plain, logits, targets);
    EXPECT_TRUE(found.loss.allclose(wanted.loss, 1e-6, 1e-6, /*equal_nan=*/true)) << odd;
    EXPECT_TRUE(found.gradient.allclose(wanted.gradient, 1e-6, 1e-6, /*equal_nan=*/true)) << odd;
  }
}

TEST_F(CrossEntropyTest, OfNoRowsIsNaN) {
  const Found found =
      found_by(&cross_entropy, at::randn({2, 3}), at::full({2}, kIgnored, at::kLong));
  EXPECT_TRUE(std::isnan(found.loss.item<float>()));
  EXPECT_EQ(found.gradient.abs().sum().item<float>(), 0);
}

TEST_F(CrossEntropyTest, RefusesATargetThatIsNoClass) {
  for (const int64_t target : {-1, 3}) {
    EXPECT_THROW(cross_entropy(at::randn({1, 3}), at::full({1}, target, at::kLong), kIgnored),
                 c10::IndexError);
  }
}

TEST_F(CrossEntropyTest, OtherTypesAndLayoutsAreTheReferences) {
  const at::Tensor targets = at::randint(5, {4}, at::kLong);
  for (const at::Tensor& logits : {at::randn({4, 5}, at::kDouble), at::randn({5, 4}).t()}) {
    EXPECT_TRUE(cross_entropy(logits, targets, kIgnored).equal(plain(logits, targets, kIgnored)));
  }
}

}  // namespace
}  // namespace accel::cross_entropy_test
