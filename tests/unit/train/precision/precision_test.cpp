#include "train/precision/precision.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel::precision_test {
namespace {

using Json = nlohmann::json;

at::ScalarType product_type(const Precision& precision) {
  const AutocastScope casts = precision.autocast();
  return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

TEST(PrecisionTest, MatrixProductsHaveTheChosenType) {
  EXPECT_EQ(product_type(*make_precision(MixedPrecision::kNo)), at::kFloat);
  EXPECT_EQ(product_type(*make_precision(MixedPrecision::kBf16)), at::kBFloat16);
  EXPECT_EQ(product_type(*make_precision(MixedPrecision::kFp16)), at::kHalf);
  EXPECT_EQ(product_type(*make_precision(MixedPrecision::kFp8)), at::kBFloat16);
}

TEST(PrecisionTest, NothingIsCastAfterTheScope) {
  product_type(*make_precision(MixedPrecision::kBf16));
  EXPECT_EQ(product_type(*make_precision(MixedPrecision::kNo)), at::kFloat);
}

TEST(PrecisionTest, AnInnerScopeGivesBackTheOuterOnesType) {
  const auto outer = make_precision(MixedPrecision::kBf16);
  const auto inner = make_precision(MixedPrecision::kFp16);
  const AutocastScope casts = outer->autocast();
  EXPECT_EQ(product_type(*inner), at::kHalf);
  EXPECT_EQ(product_type(*make_precision(MixedPrecision::kNo)), at::kBFloat16);
}

TEST(PrecisionTest, CastWeightsAreForgottenBetweenScopes) {
  const auto precision = make_precision(MixedPrecision::kBf16);
  const at::Tensor weight = at::ones({1, 1}).requires_grad_(true);
  const auto product = [&] {
    const AutocastScope casts = precision->autocast();
    return at::mm(at::ones({1, 1}), weight).item<float>();
  };
  EXPECT_EQ(product(), 1);
  weight.data().fill_(2);
  EXPECT_EQ(product(), 2);
}

TEST(PrecisionTest, OnlyFp16ScalesTheLoss) {
  const at::Tensor loss = at::tensor({1.0f}).squeeze();
  for (const auto kind : {MixedPrecision::kNo, MixedPrecision::kBf16}) {
    const auto precision = make_precision(kind);
    StateDict state;
    precision->save(state);
    EXPECT_EQ(precision->loss_scale(), 1);
    EXPECT_TRUE(precision->scale(loss).is_same(loss));
    EXPECT_TRUE(precision->unscale({}, [](const at::Tensor&) {}));
    EXPECT_TRUE(state.numbers.empty());
  }
  const auto fp16 = make_precision(MixedPrecision::kFp16);
  EXPECT_EQ(fp16->scale(loss).item<float>(), 65536);
  EXPECT_EQ(fp16->scale(loss).dim(), 0);
}

Json golden() {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(std::string(source ? source : ".") + "/tests/interop/golden/scaler.json");
  return Json::parse(file);
}

/// One step of the script's training: a linear loss and sgd with a rate of 1/8.
void scaled_step(Precision& precision, const std::vector<Parameter>& parameters, size_t step,
                 bool overflow) {
  const at::Tensor& weight = parameters[0].local;
  const at::Tensor loss = weight.mul(static_cast<double>(step + 1)).div(16).sum();
  precision.scale(loss).backward();
  if (overflow) weight.mutable_grad()[1].fill_(std::numeric_limits<float>::infinity());
  const bool finite = precision.unscale(parameters, [](const at::Tensor&) {});
  EXPECT_EQ(finite, !overflow);
  if (finite) weight.data().add_(weight.grad(), -0.125);
  precision.update();
  weight.mutable_grad() = at::Tensor();
}

TEST(PrecisionTest, TheScaleFollowsPythonsGradScaler) {
  const Json wanted = golden();
  ScalerOptions options;
  options.growth_interval = wanted["growth_interval"];
  auto precision = make_precision(MixedPrecision::kFp16, at::kCPU, options);
  const std::vector<Parameter> parameters = {
      {"weight", at::tensor({1.0f, 2.0f}).requires_grad_(true)}};
  for (size_t step = 0; step < wanted["trace"].size(); ++step) {
    const Json& now = wanted["trace"][step];
    scaled_step(*precision, parameters, step, wanted["overflows"][step] == 1);
    EXPECT_EQ(precision->loss_scale(), now["scale"]) << step;
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(parameters[0].local[i].item<float>(), now["weight"][i].get<float>()) << step;
    }
    StateDict state;  // going through a checkpoint changes nothing
    precision->save(state);
    EXPECT_EQ(state.numbers.at("_growth_tracker"), now["tracker"]) << step;
    precision = make_precision(MixedPrecision::kFp16, at::kCPU, options);
    precision->load(state);
  }
}

TEST(PrecisionTest, SavedNumbersAreNamedAsPythonNamesThem) {
  StateDict state;
  make_precision(MixedPrecision::kFp16)->save(state);
  const std::map<std::string, double> wanted = {{"scale", 65536},
                                                {"growth_factor", 2},
                                                {"backoff_factor", 0.5},
                                                {"growth_interval", 2000},
                                                {"_growth_tracker", 0}};
  EXPECT_EQ(state.numbers, wanted);
}

TEST(PrecisionTest, AStateWithoutScaleIsRefused) {
  try {
    make_precision(MixedPrecision::kFp16)->load({});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "the gradient scaler's state has no 'scale'");
  }
}

TEST(PrecisionTest, ScalerOptionsAreChecked) {
  const Registry registry;
  Diagnostics problems;
  Reading reading{problems, registry};
  ScalerOptions::schema().read(
      parse_recipe("r.yaml",
                   "{init_scale: 0, growth_factor: 1, backoff_factor: 1, growth_interval: 0}"),
      reading);
  std::vector<std::string> messages;
  for (const Diagnostic& problem : problems.list()) messages.push_back(problem.message);
  EXPECT_EQ(messages, (std::vector<std::string>{
                          "'init_scale' must be between 1e-30 and 1e30, not 0",
                          "'growth_factor' must be more than 1, not 1",
                          "'backoff_factor' must be in (0, 1), not 1",
                          "'growth_interval' must be at least 1, not 0",
                      }));
}

}  // namespace
}  // namespace accel::precision_test
