// Models that read one place of their last block's output compute only that one: the losses and
// gradients of the whole, in less time and memory.
#include "models/layers/token_positions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/api/model.h"
#include "kernels/cpu_operators.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"
#include "tests/unit/memory_meter.h"

namespace accel::token_positions_test {
namespace {

constexpr int64_t kVocab = 11;

struct Case {
  const char* name;
  const char* yaml;
  bool images = false;
  bool recomputes = false;
  bool labels_each = false;  ///< and reads all places
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << each.name;
}

ModelContext context_of(const Case& each) {
  ModelContext context;
  context.data.classes = 3;
  if (each.images) {
    context.data.input = {3, 8, 8};
    return context;
  }
  context.data.input = {6};
  context.data.input_type = DType::kI64;
  context.data.vocab = kVocab;
  if (each.labels_each) context.data.target = context.data.input;
  return context;
}

struct Found {
  at::Tensor scores;
  int wide = 0;  ///< tensors that were made for them with a block's widest layer at all places
  std::vector<Parameter> gradients;
};

Found found_with(Kernels kernels, const Case& each) {
  use_kernels(kernels);
  at::manual_seed(3);
  const auto model = build<Model>(each.yaml, context_of(each));
  if (each.recomputes) checkpoint_blocks(*model);
  Batch batch;
  batch.inputs = each.images ? at::randn({4, 3, 8, 8}) : at::randint(kVocab, {4, 6}, at::kLong);
  if (!each.images) batch.lengths = at::arange(3, 7, at::kLong);
  Found found;
  const MemoryMeter made = memory_of([&] { found.scores = model->forward_batch(batch); });
  const size_t places = each.images ? 5 : 6;
  found.wide = made.count(4 * places * 32 * sizeof(float));
  found.scores.square().sum().backward();
  for (const Parameter& item : parameters_of(*model)) {
    found.gradients.push_back({item.name, item.local.grad()});
  }
  use_kernels(Kernels::kReference);
  return found;
}

class PlacesTest : public testing::TestWithParam<Case> {};

TEST_P(PlacesTest, HaveTheScoresAndGradientsOfTheWhole) {
  const Found whole = found_with(Kernels::kReference, GetParam());
  const Found part = found_with(Kernels::kFused, GetParam());
  EXPECT_TRUE(part.scores.allclose(whole.scores, 1e-5, 1e-6));
  EXPECT_GT(whole.wide, 0);
  EXPECT_EQ(part.wide < whole.wide, !GetParam().labels_each);
  ASSERT_EQ(part.gradients.size(), whole.gradients.size());
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    const at::Tensor &found = part.gradients[i].local, &wanted = whole.gradients[i].local;
    ASSERT_EQ(found.defined(), wanted.defined()) << whole.gradients[i].name;
    if (!wanted.defined()) continue;
    EXPECT_TRUE(found.allclose(wanted, 1e-4, 1e-6)) << whole.gradients[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PlacesTest,
    testing::Values(
        Case{"bert", "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0}"},
        Case{"bert_of_one_layer",
             "{type: bert, num_layers: 1, num_heads: 2, hidden_size: 8, dropout: 0}"},
        Case{"roberta", "{type: roberta, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0}"},
        Case{"distilbert",
             "{type: distilbert, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0}"},
        Case{.name = "recomputed",
             .yaml = "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0}",
             .recomputes = true},
        Case{.name = "with_adapters_of_keys",
             .yaml = "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0, "
                     "lora: {rank: 2, target_modules: '*.key'}}"},
        Case{.name = "with_adapters",
             .yaml = "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0, lora: "
                     "{rank: 2}}"},
        Case{.name = "vit_without_biases",
             .yaml = "{type: vit, patch_size: 4, num_layers: 2, num_heads: 2, hidden_size: 8, "
                     "dropout: 0, "
                     "attention_bias: false}",
             .images = true},
        Case{.name = "labels",
             .yaml = "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 8, dropout: 0}",
             .labels_each = true},
        Case{.name = "vit",
             .yaml = "{type: vit, patch_size: 4, num_layers: 2, num_heads: 2, hidden_size: 8, "
                     "dropout: 0}",
             .images = true}),
    testing::PrintToStringParamName());

TEST(PlacesToCompute, AreAllOfThemForTheReference) {
  EXPECT_EQ(positions_to_compute(TokenPositions::kFirst), TokenPositions::kAll);
  use_kernels(Kernels::kFused);
  EXPECT_EQ(positions_to_compute(TokenPositions::kFirst), TokenPositions::kFirst);
  EXPECT_EQ(positions_to_compute(TokenPositions::kAll), TokenPositions::kAll);
  {
    const ShapesOnly shapes;
    EXPECT_EQ(positions_to_compute(TokenPositions::kFirst), TokenPositions::kFirst);
  }
  use_kernels(Kernels::kReference);
  EXPECT_EQ(select_cls_token(at::randn({2, 5, 3}), TokenPositions::kFirst).sizes(),
            at::IntArrayRef({2, 1, 3}));
}

}  // namespace
}  // namespace accel::token_positions_test
