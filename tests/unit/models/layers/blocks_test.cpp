#include <gtest/gtest.h>

#include <algorithm>

#include "core/api/block.h"
#include "core/api/model.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"

namespace accel::blocks_test {
namespace {

ModelContext tokens() {
  ModelContext context;
  context.data.input = {6};
  context.data.input_type = DType::kI64;
  context.data.target = {6};
  context.data.vocab = 11;
  return context;
}

TEST(BlocksTest, LayersOfATransformerAreBlocks) {
  const auto model =
      build<Model>("type: gpt\nnum_layers: 3\nnum_heads: 2\nhidden_size: 8\n", tokens());
  const std::vector<BlockParameters> blocks = blocks_of(*model);
  ASSERT_EQ(blocks.size(), 3U);
  size_t inside = 0;
  for (const BlockParameters& item : blocks) inside += item.parameters.size();
  EXPECT_EQ(blocks[1].parameters.size(), 12U);
  EXPECT_EQ(blocks[1].parameters[0].name, "transformer.h.1.ln_1.weight");
  // Both embeddings and the last norm are in no block.
  EXPECT_EQ(parameters_of(*model).size(), inside + 4);
}

TEST(BlocksTest, AModelWithoutBlocksHasNone) {
  ModelContext context;
  context.data.input = {4};
  context.data.classes = 3;
  EXPECT_TRUE(blocks_of(*build<Model>("type: mlp\nhidden_sizes: [5]\n", context)).empty());
}

TEST(BlocksTest, AutocastWeightsAreThoseOfLinearLayersAlone) {
  const auto model =
      build<Model>("type: gpt\nnum_layers: 3\nnum_heads: 2\nhidden_size: 8\n", tokens());
  const std::vector<std::string> found = autocast_weights_of(*model);
  const auto is_cast = [&](const char* name) {
    return std::find(found.begin(), found.end(), name) != found.end();
  };
  EXPECT_TRUE(is_cast("transformer.h.1.attn.c_attn.weight"));
  EXPECT_TRUE(is_cast("transformer.h.1.mlp.c_proj.weight"));
  EXPECT_FALSE(is_cast("transformer.h.1.mlp.c_proj.bias"));
  EXPECT_FALSE(is_cast("transformer.h.1.ln_1.weight"));
  EXPECT_FALSE(is_cast("transformer.wte.weight"));  // of the embedding, and tied to the head
}

class Hooks final : public BlockHooks {
 public:
  void before_forward() override { ++before; }
  void after_forward(const at::Tensor& output) override {
    ++after;
    width = output.size(-1);
  }
  int64_t before = 0, after = 0, width = 0;
};

TEST(BlocksTest, HooksAreCalledAroundEachPassOfABlock) {
  for (const bool checkpointed : {false, true}) {
    const auto model =
        build<Model>("type: llama\nnum_layers: 2\nnum_heads: 2\nhidden_size: 8\n", tokens());
    Hooks hooks;
    for (const BlockParameters& item : blocks_of(*model)) {
      item.block->set_hooks(&hooks);
      item.block->set_checkpointing(checkpointed ? ActivationCheckpointing::kBlocks
                                                 : ActivationCheckpointing::kNone);
    }
    model->forward(at::zeros({2, 6}, at::kLong)).sum().backward();
    EXPECT_EQ(hooks.before, 2);  // not again when activations are recomputed
    EXPECT_EQ(hooks.after, 2);
    EXPECT_EQ(hooks.width, 8);
  }
}

}  // namespace
}  // namespace accel::blocks_test
