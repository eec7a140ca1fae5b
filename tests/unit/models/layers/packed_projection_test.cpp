#include "models/layers/packed_projection.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "kernels/cpu_operators.h"

namespace accel::packed_projection_test {
namespace {

/// The gradient of x for those of its parts.
at::Tensor gradient(const at::Tensor& x, const std::vector<at::Tensor>& of_parts) {
  const std::vector<at::Tensor> parts = split_projection(x, static_cast<int64_t>(of_parts.size()));
  return torch::autograd::grad(parts, {x}, of_parts)[0];
}

at::Tensor leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).requires_grad_();
}

TEST(PackedProjectionTest, PartsAreThoseOfTheLastDimension) {
  const at::Tensor x = leaf({2, 5, 12});
  const std::vector<at::Tensor> parts = split_projection(x, 3);
  ASSERT_EQ(parts.size(), 3U);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(parts[static_cast<size_t>(i)].equal(x.narrow(2, 4 * i, 4))) << i;
  }
}

TEST(PackedProjectionTest, GradientsSideBySideAreNotCopied) {
  const at::Tensor x = leaf({2, 5, 12}), all = at::randn({2, 5, 12});
  const at::Tensor found = gradient(x, all.chunk(3, -1));
  EXPECT_TRUE(found.equal(all));
  EXPECT_TRUE(found.is_alias_of(all));
}

TEST(PackedProjectionTest, OtherGradientsAreCopied) {
  const at::Tensor x = leaf({2, 5, 12}), all = at::randn({2, 5, 12});
  const std::vector<at::Tensor> parts = all.chunk(3, -1);
  const std::vector<std::vector<at::Tensor>> others = {
      {parts[0].clone(), parts[1].clone(), parts[2].clone()},
      {parts[1], parts[0], parts[2]},                                   // in another order
      {parts[0], parts[1], parts[1]},                                   // one of them twice
      {parts[0], parts[1], parts[2].clone()},                           // of two tensors
      {all.narrow(2, 0, 4), all.narrow(2, 5, 4), all.narrow(2, 8, 4)},  // with a gap
      {at::randn({2, 4, 5}).transpose(1, 2), parts[1], parts[2]}};
  for (size_t i = 0; i < others.size(); ++i) {
    const at::Tensor found = gradient(x, others[i]);
    EXPECT_TRUE(found.equal(at::cat(others[i], -1))) << i;
    EXPECT_FALSE(found.is_alias_of(all)) << i;
  }
  // Rows that overlap.
  const at::Tensor row = at::randn({40});
  const auto part = [&](int64_t first) { return row.as_strided({2, 5, 4}, {8, 4, 1}, first); };
  const std::vector<at::Tensor> overlapping = {part(0), part(4), part(8)};
  EXPECT_TRUE(gradient(x, overlapping).equal(at::cat(overlapping, -1)));
}

TEST(PackedProjectionTest, APartWithoutAGradientHasZeros) {
  const at::Tensor x = leaf({3, 6});
  split_projection(x, 3)[1].sum().backward();
  EXPECT_EQ(x.grad().sum().item<float>(), 6);
  EXPECT_TRUE(x.grad().narrow(1, 2, 2).eq(1).all().item<bool>());
}

/// Attention of heads whose query, key and value are parts of one tensor, as GPT-2's.
TEST(PackedProjectionTest, AttentionsGradientsAreSideBySide) {
  const at::Tensor x = leaf({2, 40, 3 * 4 * 8}), slope = at::randn({2, 4, 40, 8});
  const auto by_head = [](const at::Tensor& part) {
    return part.unflatten(2, {4, 8}).transpose(1, 2);
  };
  const auto attended = [&](const std::vector<at::Tensor>& parts) {
    return at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                            {}, 0, true);
  };
  use_kernels(Kernels::kFused);
  const std::vector<at::Tensor> parts = split_projection(x, 3);
  const at::Tensor y = attended(parts);
  const auto of_parts = torch::autograd::grad({y}, parts, {slope}, /*retain_graph=*/true);
  EXPECT_TRUE(of_parts[0].is_alias_of(of_parts[2]));
  const at::Tensor found = torch::autograd::grad({y}, {x}, {slope})[0];
  const std::vector<at::Tensor> apart = {parts[0].detach().clone().requires_grad_(),
                                         parts[1].detach().clone().requires_grad_(),
                                         parts[2].detach().clone().requires_grad_()};
  const auto wanted = torch::autograd::grad({attended(apart)}, apart, {slope});
  use_kernels(Kernels::kReference);
  EXPECT_FALSE(wanted[0].is_alias_of(wanted[2]));
  EXPECT_TRUE(found.equal(at::cat(wanted, -1)));
}

}  // namespace
}  // namespace accel::packed_projection_test
