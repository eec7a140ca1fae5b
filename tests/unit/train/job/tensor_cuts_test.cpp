// The cuts of parameters by a tensor plan.
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "train/job/build_tensor_parallel.h"

namespace accel::tensor_cuts_test {
namespace {

using enum TensorStyle;

const TensorPlan kPlan = {{"embed", kEmbeddingRowwise},
                          {"layers.*.qkv", kColwise, 3},
                          {"layers.*.down", kRowwise},
                          {"layers.*.norm", kSequenceParallel},
                          {"layers.*.head_norm", kReplicatedWithGradAllReduce}};

std::vector<Parameter> parameters() {
  return {{"embed.weight", at::zeros({7, 4})},
          {"embed.lora_embedding_A", at::zeros({2, 7})},
          {"embed.lora_embedding_B", at::zeros({4, 2})},
          {"layers.0.qkv.weight", at::zeros({12, 4})},
          {"layers.0.qkv.bias", at::zeros({12})},
          {"layers.0.qkv.lora_A.weight", at::zeros({2, 4})},
          {"layers.0.qkv.lora_B.weight", at::zeros({12, 2})},
          {"layers.0.down.weight", at::zeros({4, 6})},
          {"layers.0.down.bias", at::zeros({4})},
          {"layers.0.down.lora_A.weight", at::zeros({2, 6})},
          {"layers.0.down.lora_B.weight", at::zeros({4, 2})},
          {"layers.0.norm.weight", at::zeros({4})},
          {"layers.0.head_norm.weight", at::zeros({2})},
          {"other.weight", at::zeros({3})}};
}

/// "[12, 4] rows in 3", "[4, 6] columns", "partial" or "whole".
std::string text_of(const std::map<std::string, TensorCut>& cuts, const std::string& name) {
  const auto found = cuts.find(name);
  if (found == cuts.end()) return "whole";
  const TensorCut& cut = found->second;
  if (cut.placements.empty()) return cut.is_partial ? "partial" : "wrong";
  const Placement& placement = cut.placements.front();
  std::string text = to_string(cut.global) + (placement.dim == 0 ? " rows" : " columns");
  if (placement.blocks > 1) text += " in " + std::to_string(placement.blocks);
  return text;
}

TEST(TensorCutsTest, LayersAndTheirAdaptersFollowThePlan) {
  for (const bool sequence : {false, true}) {
    const auto cuts = tensor_cuts(parameters(), kPlan, 2, sequence);
    EXPECT_EQ(text_of(cuts, "embed.weight"), "[7, 4] rows");
    for (const char* const adapter : {"embed.lora_embedding_A", "embed.lora_embedding_B"}) {
      EXPECT_EQ(text_of(cuts, adapter), sequence ? "partial" : "whole");
    }
    EXPECT_EQ(text_of(cuts, "layers.0.qkv.weight"), "[12, 4] rows in 3");
    EXPECT_EQ(text_of(cuts, "layers.0.qkv.bias"), "[12] rows in 3");
    EXPECT_EQ(text_of(cuts, "layers.0.qkv.lora_A.weight"), "partial");
    EXPECT_EQ(text_of(cuts, "layers.0.qkv.lora_B.weight"), "[12, 2] rows in 3");
    EXPECT_EQ(text_of(cuts, "layers.0.down.weight"), "[4, 6] columns");
    EXPECT_EQ(text_of(cuts, "layers.0.down.bias"), sequence ? "partial" : "whole");
    EXPECT_EQ(text_of(cuts, "layers.0.down.lora_A.weight"), "[2, 6] columns");
    EXPECT_EQ(text_of(cuts, "layers.0.down.lora_B.weight"), "partial");
    EXPECT_EQ(text_of(cuts, "layers.0.norm.weight"), sequence ? "partial" : "whole");
    EXPECT_EQ(text_of(cuts, "layers.0.head_norm.weight"), "partial");
    EXPECT_EQ(text_of(cuts, "other.weight"), "whole");
  }
}

TEST(TensorCutsTest, AnEntryWithoutALayerIsAFault) {
  TensorPlan plan = kPlan;
  plan.push_back({"layers.*.gate", kColwise});
  try {
    tensor_cuts(parameters(), plan, 2, false);
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "'layers.*.gate' of the model's tensor plan matches no layer");
  }
}

TEST(TensorCutsTest, EveryRankNeedsAShare) {
  try {
    tensor_cuts(parameters(), {{"embed", kEmbeddingRowwise}}, 6, false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'tp' 6 leaves a rank without a share of 'embed.weight', which is [7, 4]");
    EXPECT_EQ(error.hint(), "use fewer ranks");
  }
}

}  // namespace
}  // namespace accel::tensor_cuts_test
