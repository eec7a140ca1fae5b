#include "kernels/norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu_operators.h"

namespace accel::norm_test {
namespace {

class NormTest : public testing::Test {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }
};

TEST_F(NormTest, IsThatOfAllElementsInDoublePrecision) {
  at::manual_seed(1);
  std::vector<at::Tensor> tensors;
  for (const int64_t size : {1, 63, 64, 4095, 4097, 300000, 0})
    tensors.push_back(at::randn({size}));
  std::vector<at::Tensor> exact;
  for (const at::Tensor& tensor : tensors) exact.push_back(tensor.to(at::kDouble));
  const double wanted = at::linalg_vector_norm(at::cat(exact)).item<double>();
  EXPECT_NEAR(norm_of_all(tensors).item<double>(), wanted, 1e-7 * wanted);
  EXPECT_EQ(norm_of_all(tensors).scalar_type(), at::kFloat);
}

TEST_F(NormTest, ThreadsDoNotChangeBits) {
  at::manual_seed(2);
  const std::vector<at::Tensor> tensors = {at::randn({1000003}), at::randn({77})};
  at::set_num_threads(1);
  const float one = norm_of_all(tensors).item<float>();
  at::set_num_threads(3);
  EXPECT_EQ(norm_of_all(tensors).item<float>(), one);
}

TEST_F(NormTest, WhatIsNotFiniteStaysSo) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(norm_of_all({at::full({100}, 1.0F), at::tensor({infinity})}).item<float>(), infinity);
  EXPECT_TRUE(std::isnan(norm_of_all({at::tensor({infinity, std::nanf("")})}).item<float>()));
}

TEST_F(NormTest, OtherTypesAreTheReferences) {
  const std::vector<at::Tensor> mixed = {at::full({3}, 2.0), at::full({4}, 1.0, at::kBFloat16)};
  const at::Tensor found = norm_of_all({mixed[1]});
  use_kernels(Kernels::kReference);
  EXPECT_TRUE(found.equal(norm_of_all({mixed[1]})));
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
}

TEST_F(NormTest, SquaresAreOfEveryTensor) {
  const std::vector<at::Tensor> tensors = {at::full({300000}, 0.5F), at::zeros({0, 3}),
                                           at::tensor({3.0F, 4.0F})};
  for (const bool fused : {true, false}) {
    std::vector<at::Tensor> list = tensors;
    if (!fused) list.push_back(at::full({2, 2}, 2.0, at::kDouble).t());  // not by the kernel
    const at::Tensor found = squared_norms(list);
    EXPECT_EQ(found.scalar_type(), at::kDouble);
    EXPECT_DOUBLE_EQ(found[0].item<double>(), 75000);
    EXPECT_EQ(found[1].item<double>(), 0);
    EXPECT_DOUBLE_EQ(found[2].item<double>(), 25);
    if (!fused) {
      EXPECT_DOUBLE_EQ(found[3].item<double>(), 16);
    }
  }
}

TEST_F(NormTest, TermsOfSeveralRanksHaveTheBitsOfOne) {
  at::manual_seed(3);
  const std::vector<at::Tensor> tensors = {at::randn({300000}), at::randn({77}), at::randn({9, 5})};
  for (const Kernels kernels : {Kernels::kFused, Kernels::kReference}) {
    use_kernels(kernels);
    std::vector<at::Tensor> terms;
    for (const at::Tensor& tensor : tensors) {
      terms.push_back(norm_terms(tensor));
      EXPECT_EQ(terms.back().numel(), norm_term_count(tensor.numel()));
      EXPECT_EQ(terms.back().scalar_type(), norm_term_type(at::kFloat));
    }
    EXPECT_TRUE(norm_of_terms(at::cat(terms)).equal(norm_of_all(tensors)));
  }
}

}  // namespace
}  // namespace accel::norm_test
