#include <cmath>
#include <memory>

#include "core/base/cpu_target.h"
#include "kernels/cpu/loops.h"
#include "tests/unit/kernels/cuda/on_device.h"

namespace accel::cuda_test {
namespace {

constexpr CudaAdam kRule = {.parameter_type = CudaType::kFloat,
                            .moment_type = CudaType::kFloat,
                            .is_decoupled = true,
                            .rounds_stochastically = false,
                            .lr = 1e-3,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .weight_decay = 0.1,
                            .ema_decay = 0.99,
                            .gradient_factor = nullptr,
                            .skip = nullptr,
                            .seed = 7};

/// A parameter after some steps, on the device and in double precision.
template <class Number, class Moment>
class AdamCase {
 public:
  AdamCase(size_t count, unsigned seed, size_t offset = 0)
      : p_(rounded<Number>(drawn(count, seed))),
        g_(rounded<Number>(drawn(count, seed + 1))),
        m_(rounded<Moment>(drawn(count, seed + 2, 0.1F))),
        v_(rounded<Moment>(drawn(count, seed + 3, 0.1F))),
        step_({5}),
        ema_(p_) {
    for (float& x : v_) x = std::abs(x);
    on_ = std::make_unique<Memory>(*this, offset);
  }

  CudaAdamTensor tensor(bool has_ema) const {
    return {.parameter = on_->p.get(),
            .gradient = on_->g.get(),
            .average = on_->m.get(),
            .square = on_->v.get(),
            .ema = has_ema ? on_->ema.get() : nullptr,
            .step = on_->step.get(),
            .count = static_cast<int64_t>(p_.size())};
  }

  /// PyTorch's formulas of AdamW and Adam.
  void expect_step(const CudaAdam& rule, double factor, bool has_ema) const {
    std::vector<double> p, m, v, ema;
    for (size_t i = 0; i < p_.size(); ++i) {
      double g = g_[i] * factor, x = p_[i];
      if (rule.is_decoupled) x *= 1 - rule.lr * rule.weight_decay;
      if (!rule.is_decoupled) g += rule.weight_decay * x;
      m.push_back(m_[i] * rule.beta1 + (1 - rule.beta1) * g);
      v.push_back(v_[i] * rule.beta2 + (1 - rule.beta2) * g * g);
      const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(rule.beta2, 5)) + rule.eps;
      p.push_back(x - rule.lr / (1 - std::pow(rule.beta1, 5)) * m[i] / root);
      ema.push_back(has_ema ? ema_[i] * 0.99 + 0.01 * p[i] : ema_[i]);
    }
    expect_near(on_->m.floats(), m, kRounding<Moment>, 1e-7);
    expect_near(on_->v.floats(), v, kRounding<Moment>, 1e-9);
    expect_near(on_->p.floats(), p, kRounding<Number>, 1e-6);
    expect_near(on_->ema.floats(), ema, 1e-6, 1e-6);
  }

  std::vector<float> parameters() const { return on_->p.floats(); }
  std::vector<float> averages() const { return on_->m.floats(); }
  std::vector<float> squares() const { return on_->v.floats(); }
  const std::vector<float>& first() const { return p_; }

  /// One step of kernels/cpu, from the first values.
  void run_cpu(const AdamFactors& by, std::vector<float>* p, std::vector<float>* m,
               std::vector<float>* v) const {
    *p = p_, *m = m_, *v = v_;
    adam_cpu(by, {p->data(), g_.data(), m->data(), v->data()}, static_cast<int64_t>(p->size()));
  }

 private:
  struct Memory {
    OnDevice<Number> p, g;
    OnDevice<Moment> m, v;
    OnDevice<float> step, ema;
    Memory(const AdamCase& of, size_t offset)
        : p(as<Number>(of.p_), offset),
          g(as<Number>(of.g_)),
          m(as<Moment>(of.m_)),
          v(as<Moment>(of.v_)),
          step(of.step_),
          ema(of.ema_) {}
  };

  std::vector<float> p_, g_, m_, v_, step_, ema_;
  std::unique_ptr<Memory> on_;
};

template <class Number, class Moment>
CudaAdam rule_of() {
  CudaAdam rule = kRule;
  rule.parameter_type = kTypeOf<Number>;
  rule.moment_type = kTypeOf<Moment>;
  return rule;
}

template <class Case>
void step(const CudaAdam& rule, const std::vector<std::unique_ptr<Case>>& cases, bool has_ema) {
  std::vector<CudaAdamTensor> tensors;
  for (const auto& of : cases) tensors.push_back(of->tensor(has_ema));
  expect_launched(
      table().adam(&rule, tensors.data(), static_cast<int64_t>(tensors.size()), nullptr));
}

template <class Types>
class CudaAdamTest : public testing::Test {};
using Combinations = testing::Types<std::pair<float, float>, std::pair<float, Bf16>,
                                    std::pair<Bf16, float>, std::pair<Bf16, Bf16>>;
TYPED_TEST_SUITE(CudaAdamTest, Combinations);

TYPED_TEST(CudaAdamTest, IsThatOfDoublePrecision) {
  using Number = typename TypeParam::first_type;
  using Moment = typename TypeParam::second_type;
  for (const bool decoupled : {true, false}) {
    for (const bool has_ema : {true, false}) {
      std::vector<std::unique_ptr<AdamCase<Number, Moment>>> cases;
      // More than one launch takes, of one and of several blocks, with and without a rest.
      for (const size_t count : {1U, 3U, 4U, 4096U, 4097U, 9001U}) {
        for (unsigned i = 0; i < 10; ++i) {
          cases.push_back(
              std::make_unique<AdamCase<Number, Moment>>(count, 4 * i + 1, /*offset=*/i % 2));
        }
      }
      CudaAdam rule = rule_of<Number, Moment>();
      rule.is_decoupled = decoupled;
      const OnDevice<float> factor(std::vector<float>{0.25F});
      rule.gradient_factor = factor.get();
      step(rule, cases, has_ema);
      for (const auto& of : cases) of->expect_step(rule, 0.25, has_ema);
    }
  }
}

TYPED_TEST(CudaAdamTest, ASkippedStepWritesNothing) {
  using Case = AdamCase<typename TypeParam::first_type, typename TypeParam::second_type>;
  std::vector<std::unique_ptr<Case>> cases;
  cases.push_back(std::make_unique<Case>(5000, 1));
  CudaAdam rule = rule_of<typename TypeParam::first_type, typename TypeParam::second_type>();
  const OnDevice<float> skip(std::vector<float>{1});
  rule.skip = skip.get();
  const auto averages = cases[0]->averages();
  step(rule, cases, true);
  EXPECT_EQ(cases[0]->parameters(), cases[0]->first());
  EXPECT_EQ(cases[0]->averages(), averages);
}

TEST(CudaAdamOfCpuTest, IsThatOfTheCpu) {
  if (cpu_target() == CpuTarget::kAny) GTEST_SKIP() << "the CPU's loop requires FMA";
  std::vector<std::unique_ptr<AdamCase<float, float>>> cases;
  cases.push_back(std::make_unique<AdamCase<float, float>>(5000, 1));
  AdamFactors by;
  by.decay = static_cast<float>(1 - kRule.lr * kRule.weight_decay);
  by.new_share = 0.1F;
  by.beta2 = 0.999F;
  by.new_square_share = 0.001F;
  by.root_correction = static_cast<float>(std::sqrt(1 - std::pow(kRule.beta2, 5)));
  by.eps = 1e-8F;
  by.step_size = static_cast<float>(kRule.lr / (1 - std::pow(kRule.beta1, 5)));
  std::vector<float> p, m, v;
  cases[0]->run_cpu(by, &p, &m, &v);
  step(kRule, cases, false);
  expect_near(cases[0]->parameters(), p, 1e-6, 1e-7);
  expect_near(cases[0]->averages(), m, 1e-6, 1e-8);
  expect_near(cases[0]->squares(), v, 1e-6, 1e-10);
}

// Steps of a hundredth of a unit in the last place, all in one direction: rounding to nearest loses
// them, and stochastic rounding makes them on the average.
TEST(CudaRoundingTest, StochasticRoundingKeepsTheMean) {
  constexpr size_t kCount = 1 << 16;
  const auto stepped = [](bool stochastic, uint64_t seed) {
    const OnDevice<Bf16> p(as<Bf16>(std::vector<float>(kCount, 1))), g(p.host());
    const OnDevice<Bf16> m(as<Bf16>(std::vector<float>(kCount, 1))), v(m.host());
    const OnDevice<float> number(std::vector<float>{1e6F});
    CudaAdam rule = rule_of<Bf16, Bf16>();
    rule.weight_decay = 0;
    rule.lr = 1.0 / 256 / 100;  // below 1, units are 1 / 256
    rule.rounds_stochastically = stochastic;
    rule.seed = seed;
    const CudaAdamTensor tensor = {.parameter = p.get(),
                                   .gradient = g.get(),
                                   .average = m.get(),
                                   .square = v.get(),
                                   .ema = nullptr,
                                   .step = number.get(),
                                   .count = kCount};
    expect_launched(table().adam(&rule, &tensor, 1, nullptr));
    return p.floats();
  };
  EXPECT_EQ(stepped(false, 7), std::vector<float>(kCount, 1));
  const std::vector<float> found = stepped(true, 7);
  double moved = 0;
  for (const float x : found) moved += 1 - static_cast<double>(x);
  // 655 of the parameters move; the standard deviation of their number is 25.
  EXPECT_NEAR(moved / kCount * 256 * 100, 1, 0.16);
  EXPECT_EQ(found, stepped(true, 7));
  EXPECT_NE(found, stepped(true, 8));
}

TEST(CudaRoundingTest, RandomBitsDecideInProportion) {
  const float x = 1 + 1.0F / 512;  // between 1 and 1 + 1 / 128, a quarter of the way
  int up = 0;
  for (uint32_t random = 0; random < 1U << 16U; ++random) {
    Bf16 to;
    round_randomly(x, random, &to);
    up += to_float(to) > 1 ? 1 : 0;
  }
  EXPECT_EQ(up, 1 << 14);
  Bf16 to;
  round_randomly(kInfinity, 0xFFFFU, &to);
  EXPECT_EQ(to_float(to), kInfinity);
  round_randomly(std::nanf(""), 0xFFFFU, &to);
  EXPECT_TRUE(std::isnan(to_float(to)));
}

// The known answers of the authors' library Random123 for philox4x32-10.
TEST(CudaRandomTest, PhiloxHasKnownAnswers) {
  uint32_t zero[4] = {};
  philox(0, zero);
  EXPECT_EQ(zero[0], 0x6627E8D5U);
  EXPECT_EQ(zero[1], 0xE169C58DU);
  EXPECT_EQ(zero[2], 0xBC57AC4CU);
  EXPECT_EQ(zero[3], 0x9B00DBD8U);
  uint32_t ones[4] = {~0U, ~0U, ~0U, ~0U};
  philox(~uint64_t{0}, ones);
  EXPECT_EQ(ones[0], 0x408F276DU);
  EXPECT_EQ(ones[1], 0x41C83B0EU);
  EXPECT_EQ(ones[2], 0xA20BC7C6U);
  EXPECT_EQ(ones[3], 0x6D5451FDU);
}

}  // namespace
}  // namespace accel::cuda_test
