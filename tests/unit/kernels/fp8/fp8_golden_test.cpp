// Casts of torchao and scales of Transformer Engine, bit for bit: tests/interop/check_fp8.py.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/fp8/delayed_scales.h"
#include "kernels/fp8/fp8_matrix.h"

namespace accel::fp8_golden_test {
namespace {

using Json = nlohmann::json;

Json golden() {
  return Json::parse(std::ifstream(std::string(std::getenv("ACCEL_SOURCE_DIR")) +
                                   "/tests/unit/kernels/golden/fp8.json"));
}

std::vector<float> floats(const Json& bits) {
  std::vector<float> out;
  for (const int32_t each : bits.get<std::vector<int32_t>>())
    out.push_back(std::bit_cast<float>(each));
  return out;
}

TEST(Fp8GoldenTest, CastsAreThoseOfTorchao) {
  const Json file = golden();
  const at::Tensor values =
      at::tensor(floats(file["values"])).view({file["rows"].get<int64_t>(), -1});
  ASSERT_EQ(file["casts"].size(), 4u);
  for (const Json& wanted : file["casts"]) {
    SCOPED_TRACE(wanted["type"].get<std::string>());
    const bool by_row = wanted["by_row"];
    const auto type = wanted["type"] == "e4m3" ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
    const Fp8Matrix matrix = to_fp8(values, type, by_row, by_row);
    const at::Tensor bytes = at::tensor(wanted["bytes"].get<std::vector<int64_t>>());
    EXPECT_TRUE(matrix.values.view(at::kByte).flatten().to(at::kLong).equal(bytes));
    const at::Tensor scale = at::tensor(floats(wanted["scale"]));
    EXPECT_TRUE(matrix.inverse_scale.flatten().equal(scale.reciprocal()));
  }
}

TEST(Fp8GoldenTest, DelayedScalesAreThoseOfTransformerEngine) {
  const Json file = golden();
  const std::vector<float> amaxes = floats(file["amaxes"]);
  ASSERT_EQ(file["delayed"].size(), 8u);
  for (const Json& wanted : file["delayed"]) {
    SCOPED_TRACE(wanted.dump());
    const bool is_max = wanted["algorithm"] == "max";
    DelayedScales scales(
        {.margin = wanted["margin"],
         .amax_history_len = wanted["length"],
         .amax_compute_algo = is_max ? AmaxAlgorithm::kMax : AmaxAlgorithm::kMostRecent},
        {"layer"}, at::kCPU);
    const DelayedScale input = scales.of_layer(0)[0];
    std::vector<float> found;
    for (const float amax : amaxes) {
      input.amax.fill_(amax);
      scales.update([](const at::Tensor& /*amax*/) {});
      found.push_back(input.scale.item<float>());
    }
    EXPECT_EQ(found, floats(wanted["scales"]));
  }
}

}  // namespace
}  // namespace accel::fp8_golden_test
