#include "kernels/cpu/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/measured_cpu.h"

namespace accel::panel_product_test {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

enum class Added { kNothing, kTarget, kBias };

struct PanelCase {
  std::string name;
  ProductShape shape;
  bool turned_a = false, turned_b = false;
  Added added = Added::kNothing;
};

/// Rows and columns around the sizes of tiles and panels of all processors.
std::vector<PanelCase> panel_cases() {
  std::vector<PanelCase> cases;
  for (const int64_t columns : {1, 7, 8, 15, 16, 17, 32, 33, 48, 50, 64, 65, 130}) {
    for (const int64_t rows : {1, 4, 6, 11, 29, 97, 200}) {
      const auto kind = static_cast<int64_t>(cases.size());
      cases.push_back({std::to_string(rows) + "x" + std::to_string(columns),
                       {rows, columns, 1 + kind * 7 % 41},
                       kind % 2 == 1,
                       kind / 2 % 2 == 1,
                       static_cast<Added>(kind % 3)});
    }
  }
  return cases;
}

/// A matrix whose rows are followed by poison.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, bool turned = false)
      : turned_(turned),
        step_((turned ? rows : columns) + 3),
        numbers_(static_cast<size_t>((turned ? columns : rows) * step_), kPoison) {
    static std::mt19937 generator(3);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) at(i, j) = normal(generator);
    }
  }

  float& at(int64_t i, int64_t j) {
    return numbers_[static_cast<size_t>(turned_ ? j * step_ + i : i * step_ + j)];
  }
  MatrixPart part() const { return {numbers_.data(), step_, turned_}; }
  ProductTarget target(bool add) { return {numbers_.data(), step_, add}; }
  const std::vector<float>& numbers() const { return numbers_; }

 private:
  bool turned_;
  int64_t step_;
  std::vector<float> numbers_;
};

/// The panels of a matrix, in memory that was poison.
struct Panels {
  std::vector<float> memory;
  float* data;

  Panels(const Matrix& b, const ProductShape& shape)
      : memory(static_cast<size_t>(panel_numbers(shape.inner, shape.columns) + 16), kPoison),
        data(memory.data()) {
    while (reinterpret_cast<uintptr_t>(data) % 64 != 0) ++data;
    pack_panels(b.part(), shape, data);
  }
};

class PanelProductTest : public testing::TestWithParam<PanelCase> {
 protected:
  const ProductShape& shape() const { return GetParam().shape; }

  double wanted(int64_t i, int64_t j, Added added) {
    double sum = added == Added::kNothing  ? 0.0
                 : added == Added::kTarget ? double{before_.at(i, j)}
                                           : double{bias_.at(0, j)};
    for (int64_t k = 0; k < shape().inner; ++k) sum += double{a_.at(i, k)} * double{b_.at(k, j)};
    return sum;
  }
  void expect_products(Added added) {
    for (int64_t i = 0; i < shape().rows; ++i) {
      for (int64_t j = 0; j < shape().columns; ++j) {
        const double sum = wanted(i, j, added);
        EXPECT_NEAR(to_.at(i, j), sum, 1e-5 * (1 + std::abs(sum))) << i << ", " << j;
      }
      for (int64_t j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(to_.at(i, shape().columns + j)));
    }
  }

  Matrix a_{shape().rows, shape().inner, GetParam().turned_a};
  Matrix b_{shape().inner, shape().columns, GetParam().turned_b};
  Matrix bias_{1, shape().columns}, to_{shape().rows, shape().columns}, before_ = to_;
};

TEST_P(PanelProductTest, IsTheSumInDouble) {
  const Panels panels(b_, shape());
  const bool has_bias = GetParam().added == Added::kBias;
  panel_product(a_.part(), {panels.data, has_bias ? bias_.numbers().data() : nullptr}, shape(),
                to_.target(GetParam().added == Added::kTarget));
  expect_products(GetParam().added);
}

TEST_P(PanelProductTest, IsThatOfSmallProducts) {
  const bool adds = GetParam().added != Added::kNothing;  // small products have no bias
  small_product(a_.part(), b_.part(), shape(), to_.target(adds));
  expect_products(adds ? Added::kTarget : Added::kNothing);
}

TEST_P(PanelProductTest, HasBitsThatDoNotDependOnTheOtherRows) {
  const Panels panels(b_, shape());
  panel_product(a_.part(), {panels.data}, shape(), to_.target(false));
  Matrix alone = before_;
  for (int64_t i = 0; i < shape().rows; ++i) {
    const MatrixPart all = a_.part();
    panel_product({all.data + i * (all.turned ? 1 : all.step), all.step, all.turned}, {panels.data},
                  {1, shape().columns, shape().inner}, {&alone.at(i, 0), alone.target(false).step});
    for (int64_t j = 0; j < shape().columns; ++j) EXPECT_EQ(alone.at(i, j), to_.at(i, j));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, PanelProductTest, testing::ValuesIn(panel_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(SmallProductTest, TakesFactorsThatPanelsDoNotHold) {
  const ProductShape shape = {3, 300, 600};
  Matrix a(shape.rows, shape.inner), b(shape.inner, shape.columns), to(shape.rows, shape.columns);
  ASSERT_GT(panel_numbers(shape.inner, shape.columns), 65536);
  small_product(a.part(), b.part(), shape, to.target(false));
  for (const int64_t j : {0, 299}) {
    double sum = 0;
    for (int64_t k = 0; k < shape.inner; ++k) sum += double{a.at(2, k)} * double{b.at(k, j)};
    EXPECT_NEAR(to.at(2, j), sum, 1e-3);
  }
}

}  // namespace
}  // namespace accel::panel_product_test
