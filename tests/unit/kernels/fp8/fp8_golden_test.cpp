// Casts of torchao and scales of Transformer Engine, bit for bit: tests/interop/check_fp8.py.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/fp8/delayed_scales.h"
#include "kernels/fp8/fp8_linear.h"
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

at::Tensor bf16(const Json& bits) {
  return at::tensor(bits.get<std::vector<int16_t>>(), at::kShort)
      .view(at::kBFloat16)
      .view({16, -1});
}

/// torchao's emulation divides by the scales before the product: a few results round otherwise.
void expect_close(const at::Tensor& found, const Json& bits) {
  const at::Tensor wanted = bf16(bits);
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_TRUE(found.allclose(wanted, /*rtol=*/0x1p-7, /*atol=*/0));
  EXPECT_LE(found.ne(wanted).sum().item<int64_t>(), wanted.numel() / 50);
}

TEST(Fp8GoldenTest, ProductsAreThoseOfTorchao) {
  const Json file = golden()["linear"];
  ASSERT_EQ(file["results"].size(), 3u);
  for (const Json& wanted : file["results"]) {
    SCOPED_TRACE(wanted["recipe"].get<std::string>());
    auto layer = std::make_shared<Fp8Layer>();
    for (const auto& [recipe, name] : EnumNames<Fp8Recipe>::kValues) {
      if (wanted["recipe"] == name) layer->recipe = recipe;
    }
    const at::Tensor x = bf16(file["x"]).requires_grad_(),
                     weight = bf16(file["weight"]).requires_grad_();
    const at::Tensor y = fp8_linear(x, weight, layer);
    y.backward(bf16(file["gradient"]));
    expect_close(y.detach(), wanted["y"]);
    expect_close(x.grad(), wanted["dx"]);
    expect_close(weight.grad(), wanted["dw"]);
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
