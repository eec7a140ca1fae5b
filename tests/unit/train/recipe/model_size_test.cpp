#include "train/recipe/model_size.h"

#include <gtest/gtest.h>

#include "core/recipe/located_error.h"
#include "core/recipe/parse.h"

namespace accel::model_size_test {
namespace {

std::string refusal_of(const std::string& model) {
  try {
    check_model_size(parse_recipe("r.yaml", "model: " + model + "\n"), "mlp");
  } catch (const LocatedError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    return error.what();
  }
  return "";
}

TEST(ModelSizeTest, ASizeThatNoMachineHoldsIsRefused) {
  EXPECT_EQ(refusal_of("{hidden_sizes: [24, 1000000000000]}"),
            "the model 'mlp' does not fit into memory: a weight of 1000000000000 numbers has 1 TiB "
            "or more");
}

TEST(ModelSizeTest, OtherNumbersAreNot) {
  for (const char* model : {"mlp", "{hidden_sizes: [100000000]}", "{name: '1000000000000'}",
                            "{rope_theta: 500000.0}"}) {
    EXPECT_EQ(refusal_of(model), "") << model;
  }
}

bool exceeds(const std::string& recipe, int64_t bytes) {
  return may_exceed(parse_recipe("r.yaml", recipe), bytes);
}

TEST(ModelSizeTest, ABoundOfTheMemoryIsDrawnFromTheSizes) {
  constexpr int64_t kGibibyte = 1 << 30;
  EXPECT_FALSE(exceeds("model: mlp\n", 1 << 10));
  EXPECT_FALSE(exceeds("model: {hidden_size: 128, num_layers: 4, max_seq_len: 128}\n", kGibibyte));
  EXPECT_TRUE(exceeds("model: {hidden_size: 4096, num_layers: 32}\n", kGibibyte));
  EXPECT_TRUE(exceeds("model: {hidden_sizes: [100000, 100000]}\n", 32 * kGibibyte));
  EXPECT_TRUE(exceeds("model: mlp\ntask: {teacher: {hidden_size: 100000}}\n", 32 * kGibibyte));
  EXPECT_FALSE(exceeds("model: {name: '100000', rope_theta: 500000.0}\n", kGibibyte));
}

}  // namespace
}  // namespace accel::model_size_test
