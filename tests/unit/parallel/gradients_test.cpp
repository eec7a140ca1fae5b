#include "parallel/gradients.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parallel/strategy.h"

#include "tests/unit/train/optim/golden.h"

namespace accel::gradients_test {
namespace {

Parameter with_gradient(const std::string& name, std::vector<float> gradient) {
  const auto size = static_cast<int64_t>(gradient.size());
  Parameter parameter{name, at::zeros({size}).requires_grad_(true)};
  parameter.local.mutable_grad() = at::tensor(gradient);
  return parameter;
}

TEST(ClipTest, NormIsOverAllGradientsAsOneVector) {
  const std::vector<Parameter> parameters = {with_gradient("a", {3, 0}),
                                             with_gradient("b", {0, 4})};
  EXPECT_EQ(gradient_norm(parameters).item<float>(), 5);
}

TEST(ClipTest, ParametersWithoutGradientCountForNothing) {
  std::vector<Parameter> parameters = {{"frozen", at::zeros({2})}};
  EXPECT_EQ(gradient_norm(parameters).item<float>(), 0);
  EXPECT_EQ(make_single()->clip_grad_norm(parameters, 1).item<float>(), 0);
  clip_grad_value(parameters, 1);
  parameters.push_back(with_gradient("a", {2}));
  EXPECT_EQ(gradient_norm(parameters).item<float>(), 2);
}

TEST(ClipTest, GradientsWithinTheNormKeepTheirBits) {
  const std::vector<Parameter> parameters = {with_gradient("a", {0.1f, 0.2f})};
  make_single()->clip_grad_norm(parameters, 1);
  EXPECT_EQ(values_of(parameters[0].local.grad()), (std::vector<float>{0.1f, 0.2f}));
}

TEST(ClipTest, ValuesAreLimitedOnBothSides) {
  const std::vector<Parameter> parameters = {with_gradient("a", {-3, -0.5, 0.25, 7})};
  clip_grad_value(parameters, 0.5);
  EXPECT_EQ(values_of(parameters[0].local.grad()), (std::vector<float>{-0.5, -0.5, 0.25, 0.5}));
}

TEST(RowsTest, RanksHaveChunksOfRows) {
  const std::vector<at::Tensor> rows = rows_by_rank(at::zeros({5, 3}), 4);
  std::vector<int64_t> counts;
  for (const at::Tensor& share : rows) counts.push_back(share.size(0));
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(rows_by_rank(at::zeros({}), 2)[0].numel(), 1);
  EXPECT_EQ(rows_by_rank(at::zeros({}), 2)[1].numel(), 0);
}

TEST(RowsTest, TheNormByRowsIsTheNorm) {
  std::vector<Parameter> parameters = {with_gradient("a", {3, 0, 0}), with_gradient("b", {4})};
  for (const int64_t ranks : {1, 2, 3, 5}) {
    EXPECT_EQ(gradient_norm_by_rows(parameters, ranks).item<float>(), 5) << ranks;
  }
  EXPECT_EQ(gradient_norm_by_rows({}, 2).item<float>(), 0);
  parameters[1].local.mutable_grad().fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(gradient_norm_by_rows(parameters, 2).item<float>()));
}

TEST(ClipTest, TheFirstNonFiniteGradientIsNamed) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Parameter> parameters = {with_gradient("a", {1}), with_gradient("b", {-inf}),
                                             with_gradient("c", {nan})};
  EXPECT_EQ(first_non_finite_gradient(parameters), "b");
  EXPECT_EQ(first_non_finite_gradient({parameters.data(), 1}), std::nullopt);
}

}  // namespace
}  // namespace accel::gradients_test
