// Fresh weights are drawn as transformers draws them.
#include <gtest/gtest.h>

#include <ATen/ops/empty.h>

#include <cmath>

#include "core/api/model.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"

namespace accel::initial_weights_test {
namespace {

constexpr double kDeviation = 0.02;  // initializer_range

struct FreshModel {
  const char* name;
  const char* recipe;
  bool images;
  int64_t zero_row;  ///< of the table of words
};

constexpr FreshModel kFreshModels[] = {
    {"Vit", "{type: vit, num_layers: 1, hidden_size: 64, num_classes: 10}", true, 0},
    {"Bert", "{type: bert, num_layers: 1, hidden_size: 64, head: tokens}", false, 7},
    {"BertClasses", "{type: bert, num_layers: 1, hidden_size: 64, head: classes, num_classes: 4}",
     false, 7},
    {"DistilBert", "{type: distilbert, num_layers: 1, hidden_size: 64, head: tokens}", false, 7},
    {"Roberta", "{type: roberta, num_layers: 1, hidden_size: 64, head: tokens, pad: 3}", false, 3},
};

std::shared_ptr<Model> fresh(const FreshModel& item) {
  ModelContext context;
  if (item.images) {
    context.data.input = {3, 32, 32};
    context.data.classes = 10;
  } else {
    context.data = {.input = {64}, .input_type = DType::kI64, .vocab = 500, .padding = Padding{7}};
  }
  return build<Model>(item.recipe, context);
}

class FreshModelTest : public testing::TestWithParam<FreshModel> {};

TEST_P(FreshModelTest, WeightsAreNormalNormsOnesAndTheRestZero) {
  const std::shared_ptr<Model> model = fresh(GetParam());
  for (const Parameter& item : parameters_of(*model)) {
    const std::string& name = item.name;
    const at::Tensor weight = item.local.detach();
    if (name.ends_with("bias")) {
      EXPECT_EQ(weight.abs().max().item<double>(), 0.0) << name;
    } else if (weight.dim() == 1) {
      EXPECT_TRUE(weight.eq(1).all().item<bool>()) << name;
    } else {
      const double count = static_cast<double>(weight.numel());
      // Of a sample's mean and deviation; four of them are left once in sixteen thousand.
      EXPECT_NEAR(weight.mean().item<double>(), 0.0, 4 * kDeviation / std::sqrt(count)) << name;
      EXPECT_NEAR(weight.std().item<double>(), kDeviation,
                  4 * kDeviation / std::sqrt(2 * count) + 0.02 * kDeviation)
          << name;
      EXPECT_LT(weight.abs().max().item<double>(), 6 * kDeviation) << name;
    }
    if (!name.ends_with("word_embeddings.weight")) continue;
    for (const int64_t row : {GetParam().zero_row, GetParam().zero_row + 1}) {
      EXPECT_EQ(weight[row].abs().max().item<double>() == 0.0, row == GetParam().zero_row);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FreshModelTest, testing::ValuesIn(kFreshModels),
                         [](const auto& info) { return std::string(info.param.name); });

/// The cumulative distribution function of the standard normal.
double normal_cdf(double x) {
  return (1 + std::erf(x / std::sqrt(2.0))) / 2;
}

TEST(VitWeightsTest, PositionsFollowTheFormulaOfTruncatedNormals) {
  const std::shared_ptr<Model> model = fresh(kFreshModels[0]);
  for (const Parameter& item : parameters_of(*model)) {
    if (!item.name.ends_with("position_embeddings")) continue;
    // Back to what was drawn: uniform within the bounds' values of the function.
    const at::Tensor drawn =
        item.local.detach().to(at::kDouble).div(kDeviation * std::sqrt(2.0)).erf();
    const double low = 2 * normal_cdf(-2 / kDeviation) - 1;
    EXPECT_GE(drawn.min().item<double>(), low);
    EXPECT_LE(drawn.max().item<double>(), -low);
    const double count = static_cast<double>(drawn.numel());
    const double step = 0.1;
    for (double edge = low + step; edge < -low; edge += step) {
      const double below = drawn.lt(edge).sum().item<double>() / count;
      EXPECT_NEAR(below, (edge - low) / (-2 * low), 4 * 0.5 / std::sqrt(count)) << edge;
    }
    return;
  }
  FAIL() << "no positions";
}

}  // namespace
}  // namespace accel::initial_weights_test
