// What recomputation takes instead of computing: bits, memory and what must not be taken.
#include "kernels/memory/stored_outputs.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/unsafe_split.h>
#include <ATen/ops/unsafe_split_with_sizes.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace accel::stored_outputs_test {
namespace {

using Pass = StoredOutputsScope::Pass;

at::Tensor store(StoredOutputs& outputs, const std::function<at::Tensor()>& compute) {
  register_stored_operators();
  const StoredOutputsScope scope(&outputs, Pass::kStore);
  return compute();
}

at::Tensor take(StoredOutputs& outputs, const std::function<at::Tensor()>& compute) {
  const StoredOutputsScope scope(&outputs, Pass::kTake);
  return compute();
}

struct Operator {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> call;  ///< of [4, 6, 6]
  size_t stored;
};

/// The second pass gets an input of other values: what it takes shows in the result.
TEST(StoredOutputsTest, OutputsOfTheseOperatorsAreTaken) {
  at::manual_seed(1);
  const at::Tensor weight = at::randn({5, 6}), bias = at::randn({5}),
                   filters = at::randn({2, 4, 3, 3});
  const Operator operators[] = {
      {"mm", [&](const at::Tensor& x) { return at::mm(x[0], weight.t()); }, 1},
      {"addmm",
       [&](const at::Tensor& x) { return at::addmm(weight[0].slice(0, 0, 5), x[0], weight.t()); },
       1},
      {"linear with a bias", [&](const at::Tensor& x) { return at::linear(x, weight, bias); }, 1},
      {"linear with a bias, of two",
       [&](const at::Tensor& x) { return at::linear(x[0], weight, bias); }, 1},
      {"linear of three dimensions", [&](const at::Tensor& x) { return at::linear(x, weight); }, 1},
      {"convolution", [&](const at::Tensor& x) { return at::conv2d(x.unsqueeze(0), filters); }, 1},
      {"attention",
       [&](const at::Tensor& x) {
         return at::scaled_dot_product_attention(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0));
       },
       1},
      {"an operator of our own",
       [&](const at::Tensor& x) { return store_output([&] { return x.mul(2); }); }, 1},
      {"two in a row", [&](const at::Tensor& x) { return at::mm(at::mm(x[0], x[1]), x[2]); }, 2},
      {"batched", [&](const at::Tensor& x) { return at::bmm(x, x); }, 0},
      {"elementwise", [&](const at::Tensor& x) { return x.exp(); }, 0},
      {"within one of our own",
       [&](const at::Tensor& x) {
         return store_output([&] { return at::mm(x[0], x[1]).add(at::mm(x[1], x[2])); });
       },
       1}};
  for (const Operator& each : operators) {
    SCOPED_TRACE(each.name);
    const at::Tensor first = at::randn({4, 6, 6}).requires_grad_(),
                     second = at::randn({4, 6, 6}).requires_grad_();
    StoredOutputs outputs;
    const at::Tensor stored = store(outputs, [&] { return each.call(first); });
    EXPECT_EQ(outputs.size(), each.stored);
    EXPECT_TRUE(stored.equal(each.call(first)));
    const at::Tensor taken = take(outputs, [&] { return each.call(second); });
    EXPECT_TRUE(taken.equal(each.stored > 0 ? stored : each.call(second)));
    const at::Tensor again = take(outputs, [&] { return each.call(second); });
    EXPECT_TRUE(again.equal(each.call(second))) << "each output is taken once";
  }
}

TEST(StoredOutputsTest, GradientsAreThoseOfTheOperator) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({3, 4}).requires_grad_(),
                   weight = at::randn({4, 5}).requires_grad_();
  StoredOutputs outputs;
  store(outputs, [&] { return at::mm(x, weight); });
  take(outputs, [&] { return at::mm(x, weight); }).square().sum().backward();
  const at::Tensor of_x = x.grad().clone(), of_weight = weight.grad().clone();
  x.mutable_grad() = at::Tensor();
  weight.mutable_grad() = at::Tensor();
  at::mm(x, weight).square().sum().backward();
  EXPECT_TRUE(of_x.equal(x.grad()));
  EXPECT_TRUE(of_weight.equal(weight.grad()));
}

TEST(StoredOutputsTest, TheGraphIsNotKept) {
  StoredOutputs outputs;
  c10::weak_intrusive_ptr<c10::StorageImpl> seen(at::ones({1}).storage().getWeakStorageImpl());
  {
    const at::Tensor input = at::randn({3, 3}).requires_grad_();
    seen = input.storage().getWeakStorageImpl();
    store(outputs, [&] { return at::mm(input, input); });
  }
  EXPECT_EQ(outputs.size(), 1);
  EXPECT_TRUE(seen.expired());
}

/// Some views have versions of their own, such as those that at::linear() adds a bias to.
TEST(StoredOutputsTest, OutputsChangedInPlaceAreComputedAgain) {
  const at::Tensor x = at::rand({4, 2, 4}).transpose(0, 1),
                   weight = at::rand({4, 4}).requires_grad_();
  const at::Tensor bias = at::ones({4});
  const std::function<at::Tensor()> changes[] = {
      [&] { return at::mm(weight, weight).add_(1); },
      [&] { return at::mm(weight, weight).view({16}).add_(1); },
      [&] { return at::linear(x, weight, bias); },
      [&] {
        const at::Tensor product = at::mm(weight, weight);
        at::unsafe_split(product, 2)[1].add_(1);
        return product;
      },
      [&] {
        const at::Tensor product = at::mm(weight, weight);
        at::unsafe_split_with_sizes(product, {1, 3})[1].add_(1);
        return product;
      }};
  for (const auto& change : changes) {
    const at::Tensor plain = change();
    StoredOutputs outputs;
    const at::Tensor stored = store(outputs, change);
    EXPECT_EQ(outputs.size(), 1);
    EXPECT_TRUE(take(outputs, change).equal(plain));
    EXPECT_TRUE(stored.equal(plain));
  }
}

/// Attention with dropout draws random numbers, which those drawn after it follow.
TEST(StoredOutputsTest, AttentionWithDropoutIsComputedAgain) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({1, 2, 8, 4});
  StoredOutputs outputs;
  store(outputs, [&] { return at::scaled_dot_product_attention(x, x, x, {}, 0.5); });
  EXPECT_EQ(outputs.size(), 0);
}

TEST(StoredOutputsTest, TruncatedOutputsAreFreed) {
  const at::Tensor x = at::ones({2, 2});
  StoredOutputs outputs;
  const at::Tensor last = store(outputs, [&] { return at::mm(at::mm(x, x), x); });
  EXPECT_EQ(last.storage().use_count(), 2);
  outputs.truncate(1);
  EXPECT_EQ(last.storage().use_count(), 1);
  EXPECT_EQ(outputs.size(), 1);
}

TEST(StoredOutputsTest, AScopeWithoutOutputsHidesTheOuterOne) {
  const at::Tensor x = at::ones({2, 2});
  StoredOutputs outputs;
  store(outputs, [&] {
    const StoredOutputsScope nothing(nullptr, Pass::kStore);
    return at::mm(x, x).add(store_output([&] { return x.exp(); }));
  });
  EXPECT_EQ(outputs.size(), 0);
}

}  // namespace
}  // namespace accel::stored_outputs_test
