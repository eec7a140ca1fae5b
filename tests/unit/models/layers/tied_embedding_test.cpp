#include "models/layers/tied_embedding.h"

#include <ATen/Parallel.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

#include "kernels/cpu_operators.h"
#include "tests/unit/memory_meter.h"

namespace accel::tied_embedding_test {
namespace {

/// A zero whose gradient by `x` is `gradient` itself, or a view of it.
class HeldGradient final : public torch::autograd::Function<HeldGradient> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& gradient, bool as_view) {
    context->save_for_backward({gradient});
    context->saved_data["as_view"] = as_view;
    return at::zeros({}, x.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    const at::Tensor held = context->get_saved_variables()[0];
    const bool as_view = context->saved_data["as_view"].toBool();
    return {as_view ? held.view(held.sizes()) : held, at::Tensor(), at::Tensor()};
  }
};

class TiedEmbeddingTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(1);
    table_ = at::randn({50, 6}).requires_grad_();
    tokens_ = at::randint(0, 20, {4, 30}, at::kLong);  // each of them several times
  }
  void TearDown() override { use_kernels(Kernels::kReference); }

  using LookUp = at::Tensor (*)(const at::Tensor& table, const at::Tensor& tokens);
  static at::Tensor tied(const at::Tensor& table, const at::Tensor& tokens) {
    return tied_embedding(table, tokens);
  }

  static at::Tensor apart(const at::Tensor& table, const at::Tensor& tokens) {
    return at::embedding(table, tokens);
  }

  at::Tensor loss(LookUp look_up, bool with_head) const {
    const at::Tensor x = look_up(table_, tokens_);
    return with_head ? at::linear(x.tanh(), table_).square().sum() : x.square().sum();
  }

  at::Tensor gradient(LookUp look_up, bool with_head) {
    table_.mutable_grad() = at::Tensor();
    loss(look_up, with_head).backward();
    return table_.grad();
  }

  at::Tensor table_, tokens_;
};

TEST_F(TiedEmbeddingTest, HasATensGradientWithAHeadAndWithoutOne) {
  for (const bool with_head : {true, false}) {
    const at::Tensor found = gradient(&tied, with_head);
    EXPECT_FALSE(found.is_sparse());
    EXPECT_TRUE(found.allclose(gradient(&apart, with_head), 1e-5, 1e-5)) << with_head;
    EXPECT_TRUE(gradient(&tied, with_head).equal(found));
  }
}

TEST_F(TiedEmbeddingTest, TokensGiveThePaddingRowNoGradient) {
  const int64_t padding = tokens_.flatten()[0].item<int64_t>();
  for (const Kernels kind : {Kernels::kFused, Kernels::kReference}) {
    use_kernels(kind);
    table_.mutable_grad() = at::Tensor();
    tied_embedding(table_, tokens_, padding).sum().backward();
    const at::Tensor found = table_.grad();
    table_.mutable_grad() = at::Tensor();
    tied_embedding(table_, tokens_).sum().backward();
    const at::Tensor wanted = table_.grad().clone();
    EXPECT_FALSE(wanted[padding].eq(0).all().item<bool>());
    wanted[padding].zero_();
    EXPECT_TRUE(found.allclose(wanted));
  }
  use_kernels(Kernels::kFused);
}

TEST_F(TiedEmbeddingTest, AddsToGradientsThatThereAre) {
  const at::Tensor once = gradient(&tied, true).clone();
  loss(&tied, true).backward();
  EXPECT_TRUE(table_.grad().allclose(once.mul(2)));
}

TEST_F(TiedEmbeddingTest, HasTheSameBitsForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  table_ = at::randn({3000, 64}).requires_grad_();
  tokens_ = at::randint(0, 100, {8, 200}, at::kLong);
  at::set_num_threads(1);
  const at::Tensor one = gradient(&tied, false).clone();
  at::set_num_threads(2);
  const at::Tensor two = gradient(&tied, false);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(two));
}

TEST_F(TiedEmbeddingTest, AddsToTheHeadsGradientWhereItLies) {
  const at::Tensor x = tied_embedding(table_, tokens_);
  const at::Tensor scores = at::linear(x.tanh(), table_);
  const MemoryMeter made = memory_of([&] { scores.sum().backward(); });
  EXPECT_EQ(made.count(table_.nbytes()), 1);
}

TEST_F(TiedEmbeddingTest, DoesNotChangeAGradientThatSomeoneHolds) {
  for (const bool as_view : {false, true}) {
    for (const at::Tensor& held :
         {at::ones_like(table_), at::ones({6, 50}).t(), at::ones({}).expand({50, 6})}) {
      table_.mutable_grad() = at::Tensor();
      const at::Tensor rows = tied_embedding(table_, tokens_);
      HeldGradient::apply(table_, held, as_view).add(rows.sum()).backward();
      EXPECT_TRUE(held.equal(at::ones_like(table_)));
      EXPECT_FALSE(table_.grad().equal(held));
    }
  }
}

TEST_F(TiedEmbeddingTest, ForgetsTheRowsOfABackwardPassThatFailed) {
  // A second look-up, behind whose backward pass that of the first one waits and fails.
  const at::Tensor first = tied_embedding(table_, tokens_);
  first.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no"); });
  const at::Tensor both = first.add(tied_embedding(table_, tokens_));
  EXPECT_THROW(both.sum().backward(), std::runtime_error);
  EXPECT_TRUE(gradient(&tied, true).allclose(gradient(&apart, true), 1e-5, 1e-5));
}

TEST_F(TiedEmbeddingTest, LeavesTheHooksOfOthersAlone) {
  int calls = 0;
  table_.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient.mul(3);
  });
  const at::Tensor found = gradient(&tied, false);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(found.equal(gradient(&apart, false)));
}

TEST_F(TiedEmbeddingTest, IsATensForTheReferenceAndForFrozenTables) {
  use_kernels(Kernels::kReference);
  EXPECT_TRUE(gradient(&tied, true).equal(gradient(&apart, true)));
  use_kernels(Kernels::kFused);
  table_.requires_grad_(false);
  EXPECT_TRUE(tied_embedding(table_, tokens_).equal(at::embedding(table_, tokens_)));
}

}  // namespace
}  // namespace accel::tied_embedding_test
