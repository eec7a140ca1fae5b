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

}  // namespace
}  // namespace accel::model_size_test
