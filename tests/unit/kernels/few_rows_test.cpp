// Products of few rows with weights in their stored type, beside those of dequantized weights.
#include "kernels/few_rows.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/cpu_target.h"
#include "kernels/cpu/upcast.h"
#include "kernels/cpu_operators.h"
#include "kernels/quantized_weight.h"

namespace accel::few_rows_test {
namespace {

/// Whole blocks and calls, parts of both, blocks over rows, an odd number of elements.
const std::vector<std::vector<int64_t>> kSizes = {{8, 64},  {5, 2048}, {3, 1},    {7, 9}, {6, 96},
                                                  {33, 65}, {9, 1100}, {2, 4111}, {1, 70}};
const std::vector<int64_t> kRows = {1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 16, 17};

/// A product in the scope, and the values of its weight.
struct Case {
  std::string name;
  std::function<at::Tensor(const at::Tensor& x)> product;
  at::Tensor values;  ///< F32, as the product sees them
};

Case quantized(WeightCode code, bool is_double, const at::Tensor& from, at::ScalarType type) {
  const QuantizedWeight weight = quantize_weight(from, code, is_double);
  const std::string name = "code " + std::to_string(static_cast<int>(code)) +
                           (is_double ? " double" : "") + (type == at::kFloat ? "" : " bf16");
  return {name, [weight](const at::Tensor& x) { return quantized_linear(x, weight, {}, {}); },
          dequantize_weight(weight, type).to(at::kFloat)};
}

std::vector<Case> cases_of(at::IntArrayRef sizes, at::ScalarType type) {
  const at::Tensor from = at::randn(sizes);
  std::vector<Case> out;
  for (const WeightCode code : {WeightCode::kNf4, WeightCode::kFp4}) {
    for (const bool is_double : {false, true}) {
      out.push_back(quantized(code, is_double, from, type));
    }
  }
  out.push_back(quantized(WeightCode::kInt8, false, from, type));
  const at::Tensor plain = from.to(type);
  out.push_back({"plain",
                 [plain](const at::Tensor& x) {
                   return few_rows_product(x, stored_weight(plain)).to(x.scalar_type());
                 },
                 plain.to(at::kFloat)});
  return out;
}

class FewRowsTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    use_kernels(Kernels::kFused);
  }
  void TearDown() override {
    use_kernels(Kernels::kReference);
    at::set_num_threads(1);
  }

  void for_all(const std::function<void(const Case& of, int64_t columns)>& check) {
    for (const auto& sizes : kSizes) {
      for (const Case& of : cases_of(sizes, GetParam())) {
        SCOPED_TRACE(of.name + " of " + std::to_string(sizes[0]) + " x " +
                     std::to_string(sizes[1]));
        check(of, sizes[1]);
      }
    }
  }
};

TEST_P(FewRowsTest, ProductsDifferFromThoseOfTheWholeWeightByTheOrderOfSums) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  for_all([&](const Case& of, int64_t columns) {
    for (const int64_t rows : kRows) {
      const at::Tensor x = at::randn({rows, columns}).to(GetParam());
      const at::Tensor y = of.product(x);
      const at::Tensor wide = x.to(at::kDouble), weight = of.values.to(at::kDouble);
      const at::Tensor wanted = at::linear(wide, weight);
      const double per_sum = (static_cast<double>(columns) / 16 + 5) / (1 << 23);
      at::Tensor limit = at::linear(wide.abs(), weight.abs()).mul(per_sum);
      if (GetParam() == at::kBFloat16) limit = limit.add(wanted.abs().div(1 << 8));
      EXPECT_EQ(y.scalar_type(), GetParam());
      EXPECT_TRUE(y.to(at::kDouble).sub(wanted).abs().le(limit).all().item<bool>())
          << rows << " rows";
    }
  });
}

TEST_P(FewRowsTest, WeightsHaveTheBitsOfDequantizedOnes) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  for_all([&](const Case& of, int64_t columns) {
    for (int64_t first = 0; first < columns; first += 16) {
      const int64_t count = std::min<int64_t>(16, columns - first);
      at::Tensor x = at::zeros({count, columns}, GetParam());
      x.narrow(1, first, count).fill_diagonal_(1);
      const at::Tensor wanted = of.values.narrow(1, first, count).t();
      ASSERT_TRUE(of.product(x).to(at::kFloat).equal(wanted)) << "column " << first;
      if (first > 256) first += 512;
    }
  });
}

TEST_P(FewRowsTest, BitsDependNeitherOnThreadsNorOnOtherRows) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  // 1088: whole blocks, which a single row of x multiplies while they are decoded.
  std::vector<Case> cases = cases_of({203, 1100}, GetParam());
  for (Case& of : cases_of({203, 1088}, GetParam())) cases.push_back(std::move(of));
  for (const Case& of : cases) {
    SCOPED_TRACE(of.name + " of " + std::to_string(of.values.size(1)));
    const at::Tensor x = at::randn({16, of.values.size(1)}).to(GetParam());
    at::set_num_threads(1);
    const at::Tensor y = of.product(x);
    for (const int threads : {2, 3, 5}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(of.product(x).equal(y)) << threads << " threads";
    }
    for (const int64_t rows : {1, 2, 5, 6, 7, 8}) {
      EXPECT_TRUE(of.product(x.narrow(0, 3, rows)).equal(y.narrow(0, 3, rows))) << rows << " rows";
    }
  }
}

/// As on processors with AVX-512 and without AVX512_BF16: columns are float32, weights rounded.
TEST(FewRowsRoundingTest, RoundedWeightsTakeColumnsInFloat32) {
  at::manual_seed(3);
  const at::NoGradGuard no_grad;
  std::vector<float> table(16);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) * 0.13F - 1;
  for (const int64_t columns : {128, 96, 37}) {
    constexpr int64_t kWeights = 7;
    const int64_t count = kWeights * columns;
    const at::Tensor bytes = at::randint(-127, 128, {kWeights, columns}, at::kChar);
    const at::Tensor codes = at::randint(0, 256, {(count + 1) / 2}, at::kByte);
    const at::Tensor scales = at::rand({count / 64 + 1});
    const at::Tensor halves = at::randn({kWeights, columns}).to(at::kBFloat16);
    const at::Tensor pairs =
        at::stack({codes.bitwise_right_shift(4), codes.bitwise_and(15)}, 1).flatten();
    const at::Tensor numbers = at::from_blob(table.data(), {16})
                                   .index_select(0, pairs.narrow(0, 0, count).to(at::kInt))
                                   .mul(scales.repeat_interleave(64).narrow(0, 0, count));
    const auto scales_from = [scales](int64_t first, int64_t some, float* to) {
      std::copy_n(scales.const_data_ptr<float>() + first, some, to);
    };
    StoredWeight int8 = {StoredWeight::Type::kInt8, bytes.const_data_ptr(), kWeights, columns};
    int8.scales = scales_from;
    int8.rounds = true;
    StoredWeight int4 = {StoredWeight::Type::k4Bit, codes.const_data_ptr(), kWeights, columns};
    int4.table = table.data();
    int4.rounds = true;
    StoredWeight direct = int4;
    direct.block_scales = scales.const_data_ptr<float>();
    int4.scales = scales_from;
    const std::vector<std::pair<StoredWeight, at::Tensor>> cases = {
        {int4, numbers}, {direct, numbers}, {stored_weight(halves), halves}};
    for (const auto& [weight, values] : cases) {
      const at::Tensor wanted = values.to(at::kBFloat16).to(at::kFloat).view({kWeights, columns});
      for (const int64_t rows : {1, 3, 6, 8, 16}) {
        const at::Tensor x = at::randn({rows, columns});
        EXPECT_TRUE(few_rows_product(x, weight).allclose(at::linear(x, wanted), 1e-4, 1e-4))
            << columns << " columns, " << rows << " rows, type " << static_cast<int>(weight.type);
      }
    }
    if (count / 64 + 1 < kWeights) continue;
    const at::Tensor rounded =
        bytes.mul(scales.narrow(0, 0, kWeights).unsqueeze(1)).to(at::kBFloat16).to(at::kFloat);
    for (const int64_t rows : {1, 5, 8}) {
      const at::Tensor x = at::randn({rows, columns});
      EXPECT_TRUE(few_rows_product(x, int8).allclose(at::linear(x, rounded), 1e-3, 1e-3)) << rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FewRowsTest, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& of) { return std::string(at::toString(of.param)); });

class FewRowsChoiceTest : public testing::Test {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

TEST_F(FewRowsChoiceTest, ProductsOfFewRowsAreThoseWithoutGradientsInTheScope) {
  const at::Tensor x = at::zeros({2, 8, 4}), more = at::zeros({17, 4});
  EXPECT_FALSE(has_few_rows(x));
  const FewRowsScope scope;
  EXPECT_FALSE(has_few_rows(x)) << "gradients are enabled";
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(has_few_rows(x));
  EXPECT_TRUE(has_few_rows(x.to(at::kBFloat16)));
  EXPECT_FALSE(has_few_rows(x.to(at::kHalf)));
  EXPECT_FALSE(has_few_rows(x.to(at::kDouble)));
  EXPECT_FALSE(has_few_rows(more));
  EXPECT_FALSE(has_few_rows(at::zeros({0, 4})));
  use_kernels(Kernels::kReference);
  EXPECT_FALSE(has_few_rows(x));
}

TEST_F(FewRowsChoiceTest, AScopeEndsWithTheOuterOne) {
  {
    const FewRowsScope outer;
    { const FewRowsScope inner; }
    EXPECT_TRUE(FewRowsScope::is_active());
  }
  EXPECT_FALSE(FewRowsScope::is_active());
}

TEST_F(FewRowsChoiceTest, LinearLayersInFloat32AreProductsOfFewRowsInTheScope) {
  at::manual_seed(5);
  const at::NoGradGuard no_grad;
  if (cpu_target() == CpuTarget::kAny) GTEST_SKIP() << "ATen's products are as fast";
  const int64_t most = cpu_target() == CpuTarget::kAvx512 ? 16 : 4;
  const at::Tensor x = at::randn({2, most / 2, 200}), weight = at::randn({50, 200});
  const at::Tensor bias = at::randn(50);
  const at::Tensor more = at::randn({most + 1, 200}), by_aten = at::linear(more, weight);
  const at::Tensor sums = few_rows_product(x, stored_weight(weight));
  const FewRowsScope scope;
  EXPECT_TRUE(at::linear(x, weight).equal(sums));
  EXPECT_TRUE(at::linear(x, weight, bias).equal(sums.add(bias)));
  EXPECT_TRUE(at::linear(more, weight).equal(by_aten)) << "too many rows";
  // A weight with another layout is ATen's.
  EXPECT_TRUE(at::linear(x, weight.t().contiguous().t()).allclose(sums, 1e-4, 1e-4));
}

TEST_F(FewRowsChoiceTest, LinearLayersInBfloat16AreRoundedOnce) {
  at::manual_seed(5);
  const at::NoGradGuard no_grad;
  const auto drawn = [](at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); };
  const at::Tensor x = drawn({2, 3, 200}), weight = drawn({50, 200}), bias = drawn({50});
  const at::Tensor sums = few_rows_product(x, stored_weight(weight));
  const at::Tensor outside = at::linear(x, weight, bias);
  const FewRowsScope scope;
  EXPECT_TRUE(at::linear(x, weight).equal(sums.to(at::kBFloat16)));
  EXPECT_TRUE(at::linear(x, weight, bias).equal(sums.add(bias).to(at::kBFloat16)));
  EXPECT_TRUE(at::linear(x, weight, bias).allclose(outside, 1e-2, 1e-2));
  EXPECT_TRUE(at::linear(x, weight.t().contiguous().t()).equal(at::linear(x, weight)));
}

}  // namespace
}  // namespace accel::few_rows_test
