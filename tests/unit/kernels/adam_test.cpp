#include "kernels/adam.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_operators.h"

namespace accel::adam_test {
namespace {

constexpr AdamRule kRule = {.lr = 0.01,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .decoupled = true,
                            .amsgrad = false,
                            .maximize = false};

/// Parameters of several sizes, some of which have had more steps than others.
struct Training {
  std::vector<at::Tensor> parameters, gradients, averages, squares, largest, steps;
  at::Tensor found_inf;

  explicit Training(at::ScalarType type = at::kFloat) {
    at::manual_seed(1);
    double step = 1;
    for (const int64_t size : {1, 15, 16, 1000, 100000}) {
      parameters.push_back(at::randn({size}).to(type));
      gradients.push_back(at::randn({size}).to(type));
      averages.push_back(at::randn({size}).to(type).mul(0.1));
      squares.push_back(at::rand({size}).to(type));
      largest.push_back(squares.back().clone());
      steps.push_back(at::full({}, size < 16 ? 1 : ++step, at::kFloat));
    }
  }

  void step(Kernels kernels, const AdamRule& rule) {
    use_kernels(kernels);
    adam_step_(rule, {.parameters = parameters,
                      .gradients = gradients,
                      .averages = averages,
                      .squares = squares,
                      .largest_squares = rule.amsgrad ? largest : std::vector<at::Tensor>(),
                      .steps = steps,
                      .found_inf = found_inf});
    use_kernels(Kernels::kReference);
  }

  void expect_near(const Training& other, double tolerance) const {
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(parameters[i].allclose(other.parameters[i], tolerance, tolerance)) << i;
      EXPECT_TRUE(averages[i].allclose(other.averages[i], tolerance, tolerance)) << i;
      EXPECT_TRUE(squares[i].allclose(other.squares[i], tolerance, tolerance)) << i;
      EXPECT_TRUE(gradients[i].equal(other.gradients[i])) << i;
    }
  }
  void expect_equal(const Training& other) const { expect_near(other, 0); }
};

AdamRule changed(void (*change)(AdamRule&)) {
  AdamRule rule = kRule;
  change(rule);
  return rule;
}

const std::vector<AdamRule> kRules = {
    kRule,
    changed([](AdamRule& rule) { rule.decoupled = false; }),
    changed([](AdamRule& rule) { rule.weight_decay = 0; }),
    changed([](AdamRule& rule) { rule.beta1 = 0.3; }),
    changed([](AdamRule& rule) { rule.beta1 = 0; }),
    changed([](AdamRule& rule) { rule.eps = 0.1; }),
};

TEST(AdamKernelTest, StepsAsTheReference) {
  for (size_t i = 0; i < kRules.size(); ++i) {
    SCOPED_TRACE(i);
    Training fused, reference, before;
    fused.step(Kernels::kFused, kRules[i]);
    reference.step(Kernels::kReference, kRules[i]);
    fused.expect_near(reference, 1e-6);
    EXPECT_FALSE(fused.parameters[3].allclose(before.parameters[3], 1e-6, 1e-6));
  }
}

TEST(AdamKernelTest, TheFlagSkipsTheStep) {
  for (const bool amsgrad : {false, true}) {
    const AdamRule rule = amsgrad ? changed([](AdamRule& to) { to.amsgrad = true; }) : kRule;
    const Training before;
    Training skipped, updated, wanted;
    skipped.found_inf = at::ones({});
    skipped.step(Kernels::kReference, rule);
    skipped.expect_equal(before);
    updated.found_inf = at::zeros({});
    updated.step(Kernels::kReference, rule);
    wanted.step(Kernels::kReference, rule);
    updated.expect_equal(wanted);
  }
}

TEST(AdamKernelTest, IsThePapersRule) {
  Training fused;
  const Training before;
  fused.step(Kernels::kFused, kRule);
  for (size_t i = 0; i < before.parameters.size(); ++i) {
    const double step = before.steps[i].item<double>();
    const at::Tensor gradient = before.gradients[i].to(at::kDouble);
    const at::Tensor average = before.averages[i].to(at::kDouble).mul(0.9).add(gradient, 0.1);
    const at::Tensor square =
        before.squares[i].to(at::kDouble).mul(0.999).add(gradient.square(), 0.001);
    const at::Tensor direction = average.div(1 - std::pow(0.9, step))
                                     .div(square.div(1 - std::pow(0.999, step)).sqrt().add(1e-8));
    const at::Tensor wanted =
        before.parameters[i].to(at::kDouble).mul(1 - 0.01 * 0.1).sub(direction, 0.01);
    EXPECT_TRUE(fused.parameters[i].to(at::kDouble).allclose(wanted, 1e-6, 1e-6)) << i;
  }
}

TEST(AdamKernelTest, ThreadsDoNotChangeBits) {
  const int threads = at::get_num_threads();
  Training one, three;
  at::set_num_threads(1);
  one.step(Kernels::kFused, kRule);
  at::set_num_threads(3);
  three.step(Kernels::kFused, kRule);
  at::set_num_threads(threads);
  one.expect_equal(three);
}

TEST(AdamKernelTest, WhatItDoesNotTakeIsTheReferences) {
  const auto expect_alike = [](at::ScalarType type, const AdamRule& rule) {
    Training fused(type), reference(type);
    fused.step(Kernels::kFused, rule);
    reference.step(Kernels::kReference, rule);
    fused.expect_equal(reference);
  };
  expect_alike(at::kFloat, changed([](AdamRule& rule) { rule.amsgrad = true; }));
  expect_alike(at::kFloat, changed([](AdamRule& rule) { rule.maximize = true; }));
  expect_alike(at::kDouble, kRule);
}

}  // namespace
}  // namespace accel::adam_test
