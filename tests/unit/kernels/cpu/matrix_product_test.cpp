#include "kernels/cpu/matrix_product.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <string>

#include "core/api/batch.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu_operators.h"

namespace accel::matrix_product_test {
namespace {

struct MatrixProductCase {
  std::string name;
  ProductShape shape;
  bool turned_a, turned_b, add;
};

const MatrixProductCase kMatrixProductCases[] = {
    {"Plain", {5, 7, 3}, false, false, false},
    {"TurnedA", {5, 7, 3}, true, false, false},
    {"TurnedB", {5, 7, 3}, false, true, false},
    {"BothTurned", {5, 7, 3}, true, true, false},
    {"Added", {5, 7, 3}, false, false, true},
    {"LongSums", {9, 4, 1100}, false, false, false},
    {"LongSumsTurned", {9, 4, 1100}, true, true, true},
    {"OfTheGreatestLength", {9, 4, 512}, true, false, false},
    {"OneNumber", {1, 1, 1}, false, true, true},
};

class MatrixProductTest : public testing::TestWithParam<MatrixProductCase> {};

/// The first columns of rows that are longer by 3.
at::Tensor part_of_rows(int64_t rows, int64_t columns) {
  return at::randn({rows, columns + 3}).narrow(1, 0, columns);
}

TEST_P(MatrixProductTest, IsThatOfTensors) {
  const auto& [rows, columns, inner] = GetParam().shape;
  const bool turned_a = GetParam().turned_a, turned_b = GetParam().turned_b;
  at::manual_seed(5);
  const at::Tensor a = turned_a ? part_of_rows(inner, rows) : part_of_rows(rows, inner);
  const at::Tensor b = turned_b ? part_of_rows(columns, inner) : part_of_rows(inner, columns);
  const at::Tensor whole = at::full({rows, columns + 2}, 4.0F);
  const at::Tensor to = whole.narrow(1, 0, columns);
  at::Tensor wanted =
      at::mm((turned_a ? a.t() : a).to(at::kDouble), (turned_b ? b.t() : b).to(at::kDouble));
  if (GetParam().add) wanted += 4;
  ASSERT_TRUE(has_matrix_product());
  matrix_product({a.const_data_ptr<float>(), a.stride(0), turned_a},
                 {b.const_data_ptr<float>(), b.stride(0), turned_b}, GetParam().shape,
                 {to.mutable_data_ptr<float>(), to.stride(0), GetParam().add});
  EXPECT_LT((to.to(at::kDouble) - wanted).abs().max().item<double>(), 1e-4);
  EXPECT_TRUE((whole.narrow(1, columns, 2) == 4).all().item<bool>());  // beside it nothing changes
}

/// `a` [rows, inner] times `b` [columns, inner]^T.
at::Tensor product_of(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor to = at::empty({a.size(0), b.size(0)}, at::kFloat);
  matrix_product({a.const_data_ptr<float>(), a.stride(0)},
                 {b.const_data_ptr<float>(), b.stride(0), true}, {a.size(0), b.size(0), a.size(1)},
                 {to.mutable_data_ptr<float>(), to.stride(0)});
  return to;
}

TEST(MatrixProductThreadsTest, DoNotChangeBits) {
  use_kernels(Kernels::kFused);
  for (const auto& [rows, columns, inner] :
       {ProductShape{128, 128, 32}, {437, 300, 8}, {65, 60, 64}, {64, 64, 1200}, {437, 8, 300}}) {
    const at::Tensor a = at::randn({rows, inner}), b = at::randn({columns, inner});
    at::set_num_threads(1);
    const at::Tensor one = product_of(a, b);
    at::set_num_threads(2);
    EXPECT_TRUE(product_of(a, b).equal(one)) << rows << " " << columns << " " << inner;
    for_each_part(2, 1, [&](int64_t /*begin*/, int64_t /*end*/) {
      EXPECT_TRUE(product_of(a, b).equal(one)) << rows << " " << columns << " " << inner;
    });
  }
  at::set_num_threads(1);
  use_kernels(Kernels::kReference);
}

INSTANTIATE_TEST_SUITE_P(Of, MatrixProductTest, testing::ValuesIn(kMatrixProductCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accel::matrix_product_test
