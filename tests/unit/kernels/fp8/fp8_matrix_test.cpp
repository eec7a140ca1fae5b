// Casts to fp8 and products of fp8 matrices.
#include "kernels/fp8/fp8_matrix.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace accel::fp8_matrix_test {
namespace {

constexpr auto kE4m3 = at::kFloat8_e4m3fn;
constexpr auto kE5m2 = at::kFloat8_e5m2;
constexpr float kInf = std::numeric_limits<float>::infinity();

at::Tensor values_of(const Fp8Matrix& matrix) {
  return matrix.values.to(at::kFloat).mul(matrix.inverse_scale);
}

double error_of(const at::Tensor& found, const at::Tensor& wanted) {
  return at::linalg_vector_norm(found.sub(wanted)).item<double>() /
         at::linalg_vector_norm(wanted).item<double>();
}

class Fp8MatrixTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }
};

TEST_F(Fp8MatrixTest, ScalesMapTheLargestMagnitudeToTheLargestValue) {
  const at::Tensor amax = at::tensor({448.0F, 2.0F, 3.0F, 0.0F});
  const at::Tensor exact = fp8_scale(amax, kE4m3, false);
  EXPECT_EQ(exact[0].item<float>(), 1);
  EXPECT_EQ(exact[1].item<float>(), 224);
  EXPECT_EQ(exact[2].item<float>(), static_cast<float>(448.0 / 3));
  EXPECT_EQ(exact[3].item<float>(), static_cast<float>(448 / 1e-12));
  const at::Tensor powers = fp8_scale(amax, kE4m3, true);
  EXPECT_EQ(powers[1].item<float>(), 128);
  EXPECT_EQ(powers[2].item<float>(), 128);
  EXPECT_EQ(fp8_scale(at::tensor({1.0F}), kE5m2, false).item<float>(), 57344);
}

TEST_F(Fp8MatrixTest, PowersOfTwoAreExact) {
  const at::Tensor powers = fp8_scale(at::randn({10000}).abs().add(1e-6), kE4m3, true);
  for (int64_t i = 0; i < powers.numel(); ++i) {
    int exponent = 0;
    ASSERT_EQ(std::frexp(powers[i].item<float>(), &exponent), 0.5F);
  }
}

/// facts of e4m3 and e5m2: relative Frobenius error, and the worst of one normal value.
TEST_F(Fp8MatrixTest, ErrorsOfCastsAreThoseOfTheTypes) {
  const at::Tensor x = at::randn({256, 512});
  EXPECT_LT(error_of(values_of(to_fp8(x, kE4m3, false, false)), x), 0.028);
  EXPECT_LT(error_of(values_of(to_fp8(x, kE5m2, false, false)), x), 0.056);
  const at::Tensor large = x.abs().add(0.1);
  const auto worst = [&](at::ScalarType type) {
    return values_of(to_fp8(large, type, false, false))
        .div(large)
        .sub(1)
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_LT(worst(kE4m3), 0.0589);
  EXPECT_LT(worst(kE5m2), 0.1112);
}

TEST_F(Fp8MatrixTest, CastsSaturate) {
  const at::Tensor x = at::tensor({460.0F, 500.0F, -1e30F, 448.0F});
  const at::Tensor one = at::full({}, 1.0F);
  EXPECT_TRUE(cast_to_fp8(x, one, kE4m3)
                  .to(at::kFloat)
                  .equal(at::tensor({448.0F, 448.0F, -448.0F, 448.0F})));
  // Beyond the range of float32 too.
  EXPECT_EQ(
      cast_to_fp8(at::tensor({1e30F}), at::full({}, 1e20F), kE5m2).to(at::kFloat).item<float>(),
      57344);
}

TEST_F(Fp8MatrixTest, OneInfinityStaysInItsPlace) {
  at::Tensor x = at::randn({32, 32});
  x[3][4] = kInf;
  for (const bool by_row : {false, true}) {
    const Fp8Matrix matrix = to_fp8(x, kE4m3, by_row, by_row);
    EXPECT_TRUE(matrix.inverse_scale.isfinite().all().item<bool>());
    const at::Tensor values = values_of(matrix);
    EXPECT_TRUE(values[3][4].isnan().item<bool>());
    EXPECT_EQ(values.isnan().sum().item<int64_t>(), 1);
    const at::Tensor product =
        fp8_product(matrix, to_fp8(at::randn({16, 32}), kE4m3, by_row, by_row), at::kFloat, false);
    EXPECT_EQ(product.isnan().sum().item<int64_t>(), 16);  // the row of the infinity
  }
}

TEST_F(Fp8MatrixTest, ZerosAndDenormalsHaveFiniteScales) {
  for (const at::Tensor& x : {at::zeros({16, 16}), at::full({16, 16}, 1e-40F)}) {
    const Fp8Matrix matrix = to_fp8(x, kE4m3, true, true);
    EXPECT_TRUE(matrix.inverse_scale.isfinite().all().item<bool>());
    EXPECT_TRUE(values_of(matrix).isfinite().all().item<bool>());
  }
  // The sign of zero stays.
  const at::Tensor zero = cast_to_fp8(at::tensor({-0.0F}), at::full({}, 1.0F), kE4m3);
  EXPECT_EQ(zero.view(at::kByte).item<int>(), 0x80);
}

/// One row of large values: the others underflow with one scale, and do not with one per row.
TEST_F(Fp8MatrixTest, ScalesOfRowsSeparateTheRows) {
  at::Tensor x = at::randn({256, 512});
  x[0].mul_(1e6);
  const at::Tensor others = x.narrow(0, 1, 255);
  const auto error = [&](bool by_row) {
    return error_of(values_of(to_fp8(x, kE4m3, by_row, by_row)).narrow(0, 1, 255), others);
  };
  EXPECT_LT(error(true), 0.045);
  EXPECT_GT(error(false), 0.9);
}

TEST_F(Fp8MatrixTest, TheEmulationEqualsScaledMm) {
  const Fp8Matrix a = to_fp8(at::randn({32, 64}), kE4m3, false, false);
  const Fp8Matrix b = to_fp8(at::randn({48, 64}), kE4m3, false, false);
  const at::Tensor emulated = fp8_product(a, b, at::kFloat, false);
  const at::Tensor scaled = at::_scaled_mm(a.values, b.values.t(), a.inverse_scale, b.inverse_scale,
                                           {}, {}, at::kFloat, false);
  EXPECT_LT(error_of(emulated, scaled), 4e-7);
}

TEST_F(Fp8MatrixTest, ScalesOfARowAndAMatrixMayMeet) {
  const at::Tensor x = at::randn({32, 64}), w = at::randn({16, 64});
  const Fp8Matrix a = to_fp8(x, kE4m3, true, true), b = to_fp8(w, kE4m3, false, true);
  const at::Tensor wanted = values_of(a).mm(values_of(b).t());
  EXPECT_LT(error_of(fp8_product(a, b, at::kFloat, false), wanted), 1e-6);
}

TEST_F(Fp8MatrixTest, PaddingAddsZeroColumns) {
  const at::Tensor x = at::randn({16, 20});
  const Fp8Matrix padded = with_padded_columns(to_fp8(x, kE4m3, true, true));
  EXPECT_EQ(padded.values.sizes(), (at::IntArrayRef{16, 32}));
  EXPECT_TRUE(padded.values.is_contiguous());
  EXPECT_TRUE(padded.values.narrow(1, 20, 12).to(at::kFloat).eq(0).all().item<bool>());
  EXPECT_EQ(fp8_product(padded, padded, at::kBFloat16, false).sizes(), (at::IntArrayRef{16, 16}));
}

TEST_F(Fp8MatrixTest, OperandsThatScaledMmRefusesAreRefused) {
  const auto matrix = [](int64_t rows, int64_t columns, at::ScalarType type = kE4m3) {
    return to_fp8(at::randn({rows, columns}), type, false, false);
  };
  const Fp8Matrix good = matrix(16, 32);
  EXPECT_NO_THROW(fp8_product(matrix(5, 32), good, at::kFloat, false));  // any number of rows
  EXPECT_NO_THROW(fp8_product(matrix(16, 32, kE5m2), good, at::kFloat, false));
  Fp8Matrix columns_first = matrix(32, 16), half_scale = good;
  columns_first.values = columns_first.values.t();
  half_scale.inverse_scale = half_scale.inverse_scale.to(at::kHalf);
  const std::pair<Fp8Matrix, Fp8Matrix> wrong[] = {{matrix(16, 20), matrix(16, 20)},
                                                   {good, matrix(20, 32)},
                                                   {good, matrix(16, 16)},
                                                   {matrix(16, 32, kE5m2), matrix(16, 32, kE5m2)},
                                                   {columns_first, good},
                                                   {half_scale, good}};
  for (const auto& [a, b] : wrong) {
    try {
      fp8_product(a, b, at::kFloat, false);
      ADD_FAILURE() << "accepted";
    } catch (const std::logic_error& error) {
      EXPECT_STREQ(error.what(), "matrices that at::_scaled_mm does not multiply");
    }
  }
}

}  // namespace
}  // namespace accel::fp8_matrix_test
