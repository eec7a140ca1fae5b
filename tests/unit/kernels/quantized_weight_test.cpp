// Weights in 4 and 8 bits: codes, dequantized values, products and gradients.
#include "kernels/quantized_weight.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <limits>
#include <vector>

#include "kernels/cpu_operators.h"

namespace accel::quantized_weight_test {
namespace {

constexpr std::array kCodes = {WeightCode::kNf4, WeightCode::kFp4, WeightCode::kInt8};
/// Whole blocks, blocks over rows, an odd number of elements, less than a block, several scales'
/// blocks.
const std::vector<std::vector<int64_t>> kSizes = {{8, 64}, {6, 96}, {7, 9},
                                                  {1, 1},  {5, 65}, {300, 70}};

class QuantizedWeightTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(3); }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

template <class Check>
void for_all(const Check& check) {
  for (const WeightCode code : kCodes) {
    for (const bool is_double : {false, true}) {
      if (is_double && code == WeightCode::kInt8) continue;
      for (const auto& sizes : kSizes) {
        SCOPED_TRACE(testing::Message() << "code " << static_cast<int>(code) << " double "
                                        << is_double << " of " << sizes[0] << " x " << sizes[1]);
        check(code, sizes, is_double);
      }
    }
  }
}

TEST_F(QuantizedWeightTest, ValuesOfTheTableAreKeptExactly) {
  at::Tensor row = at::zeros({1, 64});
  const at::Tensor nf4 = at::tensor({-1.0F, -0.28444138169288635F, 0.0F, 0.07958029955625534F});
  row.narrow(1, 0, 4).copy_(nf4.mul(2));
  const QuantizedWeight weight = quantize_weight(row, WeightCode::kNf4, false);
  EXPECT_EQ(weight.codes[0].item<int>(), 0x04);
  EXPECT_EQ(weight.codes[1].item<int>(), 0x78);
  EXPECT_EQ(weight.codes[2].item<int>(), 0x77);
  EXPECT_EQ(weight.abs_max.item<float>(), 2);
  EXPECT_TRUE(dequantize_weight(weight, at::kFloat).equal(row));
}

TEST_F(QuantizedWeightTest, TheCodesOfFp4AreSignExponentAndMantissa) {
  at::Tensor row = at::zeros({1, 64});
  row.narrow(1, 0, 4).copy_(at::tensor({12.0F, -8.0F, 3.0F, -0.0625F}));
  const QuantizedWeight weight = quantize_weight(row, WeightCode::kFp4, false);
  EXPECT_EQ(weight.codes[0].item<int>(), 0x3A);
  EXPECT_EQ(weight.codes[1].item<int>(), 0x79);
  EXPECT_TRUE(dequantize_weight(weight, at::kFloat).allclose(row, 1e-7, 0));
}

TEST_F(QuantizedWeightTest, ErrorsAreBelowHalfTheWidestGap) {
  for_all([](WeightCode code, const std::vector<int64_t>& sizes, bool is_double) {
    const at::Tensor values = at::randn(sizes);
    const at::Tensor back = dequantize_weight(quantize_weight(values, code, is_double), at::kFloat);
    const double gap = code == WeightCode::kNf4 ? 0.152 : code == WeightCode::kFp4 ? 0.167 : 0.0045;
    const double of_scale = is_double ? 0.05 : 0;
    const double limit = values.abs().max().item<double>() * (gap + of_scale);
    EXPECT_LE(back.sub(values).abs().max().item<double>(), limit);
  });
}

TEST_F(QuantizedWeightTest, FusedKernelsHaveTheReferenceBits) {
  for_all([](WeightCode code, const std::vector<int64_t>& sizes, bool is_double) {
    const QuantizedWeight weight = quantize_weight(at::randn(sizes), code, is_double);
    use_kernels(Kernels::kReference);
    const at::Tensor reference = dequantize_weight(weight, at::kFloat);
    use_kernels(Kernels::kFused);
    EXPECT_TRUE(dequantize_weight(weight, at::kFloat).equal(reference));
    EXPECT_EQ(reference.sizes(), sizes);
  });
}

/// Zeros and numbers that are not finite too.
TEST_F(QuantizedWeightTest, FusedKernelsHaveTheReferenceCodes) {
  for_all([](WeightCode code, const std::vector<int64_t>& sizes, bool is_double) {
    at::Tensor values = at::randn(sizes);
    values.view({-1})[0] = 0;
    if (sizes[0] == 300) {
      values[7].zero_();
      values[9][3] = std::numeric_limits<float>::quiet_NaN();
      values[90][3] = std::numeric_limits<float>::infinity();
      values[120].mul_(1e-41);
    }
    use_kernels(Kernels::kReference);
    const QuantizedWeight reference = quantize_weight(values, code, false);
    const QuantizedWeight doubly = quantize_weight(values.nan_to_num(1), code, is_double);
    use_kernels(Kernels::kFused);
    const QuantizedWeight fused = quantize_weight(values, code, false);
    EXPECT_TRUE(fused.codes.equal(reference.codes));
    EXPECT_TRUE(fused.abs_max.allclose(reference.abs_max, 0, 0, /*equal_nan=*/true));
    EXPECT_TRUE(
        quantize_weight(values.nan_to_num(1), code, is_double).abs_max.equal(doubly.abs_max));
  });
}

TEST_F(QuantizedWeightTest, EmptyWeightsHaveTheSizesOfQuantizedOnes) {
  for_all([](WeightCode code, const std::vector<int64_t>& sizes, bool is_double) {
    const QuantizedWeight full = quantize_weight(at::randn(sizes), code, is_double);
    const QuantizedWeight empty = empty_quantized_weight(code, sizes, is_double);
    const auto check = [](const at::Tensor& a, const at::Tensor& b) {
      ASSERT_EQ(a.defined(), b.defined());
      if (!a.defined()) return;
      EXPECT_EQ(a.sizes(), b.sizes());
      EXPECT_EQ(a.scalar_type(), b.scalar_type());
    };
    check(full.codes, empty.codes);
    check(full.abs_max, empty.abs_max);
    check(full.nested_abs_max, empty.nested_abs_max);
    check(full.nested_offset, empty.nested_offset);
  });
}

TEST_F(QuantizedWeightTest, ZerosStayZeros) {
  for_all([](WeightCode code, const std::vector<int64_t>& sizes, bool is_double) {
    const QuantizedWeight weight = quantize_weight(at::zeros(sizes), code, is_double);
    EXPECT_TRUE(dequantize_weight(weight, at::kFloat).equal(at::zeros(sizes)));
  });
}

TEST_F(QuantizedWeightTest, ProductsAndGradientsAreThoseOfTheDequantizedWeight) {
  for_all([](WeightCode code, const std::vector<int64_t>& sizes, bool is_double) {
    const QuantizedWeight weight = quantize_weight(at::randn(sizes), code, is_double);
    const at::Tensor whole = dequantize_weight(weight, at::kFloat);
    const at::Tensor x = at::randn({2, 3, sizes[1]}).requires_grad_();
    const at::Tensor bias = at::randn({sizes[0]}).requires_grad_();
    const at::Tensor y = quantized_linear(x, weight, bias, {});
    const at::Tensor wanted = at::linear(x, whole, bias);
    EXPECT_TRUE(y.allclose(wanted, 1e-5, 1e-5));
    const at::Tensor dy = at::randn_like(y);
    const auto found = torch::autograd::grad({y}, {x, bias}, {dy});
    const auto reference = torch::autograd::grad({wanted}, {x, bias}, {dy});
    EXPECT_TRUE(found[0].allclose(reference[0], 1e-5, 1e-5));
    EXPECT_TRUE(found[1].allclose(reference[1], 1e-5, 1e-5));
  });
}

TEST_F(QuantizedWeightTest, TheComputeTypeChangesTheProductAndNotTheResultsType) {
  const QuantizedWeight weight = quantize_weight(at::randn({8, 64}), WeightCode::kNf4, false);
  const at::Tensor x = at::randn({4, 64});
  const at::Tensor exact = quantized_linear(x, weight, {}, {});
  const at::Tensor rounded = quantized_linear(x, weight, {}, at::kBFloat16);
  EXPECT_EQ(rounded.scalar_type(), at::kFloat);
  EXPECT_FALSE(rounded.equal(exact));
  EXPECT_TRUE(rounded.equal(
      at::linear(x.to(at::kBFloat16), dequantize_weight(weight, at::kBFloat16)).to(at::kFloat)));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor cast = quantized_linear(x, weight, {}, {});
  const at::Tensor whole = quantized_linear(x, weight, {}, at::kFloat);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(cast.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(whole.equal(exact));
}

}  // namespace
}  // namespace accel::quantized_weight_test
