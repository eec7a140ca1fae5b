#include "formats/tensors/weight_shards.h"

#include <gtest/gtest.h>

namespace accel::model_sizes_test {
namespace {

ModelSizes sizes_of(const std::vector<std::pair<std::string, Shape>>& weights) {
  std::vector<NamedArray> arrays;
  for (const auto& [name, shape] : weights) arrays.push_back({name, Array(DType::kF32, shape)});
  return model_sizes(arrays);
}

TEST(ModelSizesTest, ABlockOfAListIsOneLayer) {
  const ModelSizes sizes = sizes_of({{"transformer.wte.weight", {10, 4}},
                                     {"transformer.h.0.attn.c_attn.weight", {4, 12}},
                                     {"transformer.h.0.attn.c_attn.bias", {12}},
                                     {"transformer.h.1.mlp.c_fc.weight", {4, 16}},
                                     {"transformer.ln_f.weight", {4}}});
  EXPECT_EQ(sizes.total, 40 + 48 + 12 + 64 + 4);
  EXPECT_EQ(sizes.largest, 64);
  EXPECT_EQ(sizes.largest_layer, "transformer.h.1");
}

TEST(ModelSizesTest, AModuleIsALayerWithItsBias) {
  const ModelSizes sizes = sizes_of(
      {{"classifier.weight", {4, 6}}, {"classifier.bias", {6}}, {"pooler.weight", {5, 5}}});
  EXPECT_EQ(sizes.largest_layer, "classifier");
  EXPECT_EQ(sizes.largest, 30);
}

TEST(ModelSizesTest, NothingAndANameWithoutModule) {
  EXPECT_EQ(sizes_of({}).total, 0);
  EXPECT_EQ(sizes_of({}).largest_layer, "");
  EXPECT_EQ(sizes_of({{"scale", {3}}}).largest_layer, "scale");
}

}  // namespace
}  // namespace accel::model_sizes_test
