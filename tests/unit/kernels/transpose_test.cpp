// Transposed copies: whole tiles, parts of them, rows that are farther apart than their columns.
#include "kernels/transpose.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

namespace accel::transpose_test {
namespace {

TEST(TransposeTest, CopiesAPartOfAMatrixIntoAPartOfTheTransposedOne) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
           {16, 16}, {32, 48}, {1, 1}, {1, 40}, {40, 1}, {17, 33}, {31, 64}, {768, 100}}) {
    const int64_t rows = sizes[0], columns = sizes[1];
    const at::Tensor whole =
        at::arange((rows + 2) * (columns + 5), at::kFloat).view({rows + 2, columns + 5});
    const at::Tensor from = whole.narrow(0, 1, rows).narrow(1, 3, columns);
    at::Tensor to = at::zeros({columns + 1, rows + 7});
    at::Tensor wanted = to.clone();
    const auto part = [&](at::Tensor& of) { return of.narrow(0, 1, columns).narrow(1, 2, rows); };
    part(wanted).copy_(from.t());
    for (const int threads : {1, 3}) {
      at::set_num_threads(threads);
      to.zero_();
      copy_transposed({from.const_data_ptr<float>(), rows, columns, columns + 5},
                      part(to).mutable_data_ptr<float>(), rows + 7);
      EXPECT_TRUE(to.equal(wanted)) << rows << " x " << columns << ", " << threads << " threads";
    }
    at::set_num_threads(1);
  }
}

}  // namespace
}  // namespace accel::transpose_test
