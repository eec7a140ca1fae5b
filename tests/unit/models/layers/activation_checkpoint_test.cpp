// A second forward pass in place of memory: the same gradients to the last bit, random numbers,
// autocast and running statistics included.
#include "models/layers/activation_checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include "core/api/model.h"
#include "core/base/text.h"
#include "kernels/feed_forward.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"
#include "tests/unit/cpu_autocast.h"

namespace accel::activation_checkpoint_test {
namespace {

ModelContext tokens() {
  ModelContext context;
  context.data.input = {6};
  context.data.input_type = DType::kI64;
  context.data.target = {6};
  context.data.vocab = 11;
  return context;
}

ModelContext pictures() {
  ModelContext context;
  context.data.input = {3, 8, 8};
  context.data.classes = 3;
  return context;
}

struct Pass {
  std::vector<Parameter> results;  ///< loss, gradients, buffers, and what is drawn afterwards
  int64_t blocks = 0;
};

Pass pass_of(const std::string& yaml, bool images, bool autocast, ActivationCheckpointing mode) {
  at::manual_seed(3);
  const auto model = build<Model>(yaml, images ? pictures() : tokens());
  Pass out;
  if (mode != ActivationCheckpointing::kNone) {
    out.blocks = checkpoint_blocks(*model, nullptr, mode);
  }
  Batch batch;
  batch.inputs = images ? at::randn({4, 3, 8, 8}) : at::randint(11, {4, 6}, at::kLong);
  if (yaml.find("bert") != yaml.npos) batch.lengths = at::arange(3, 7, at::kLong);
  at::Tensor loss;
  {
    const CpuAutocast casts(autocast);
    loss = model->forward_batch(batch).to(at::kFloat).square().mean();
  }
  loss.backward();
  out.results.push_back({"loss", loss.detach()});
  for (const Parameter& item : parameters_of(*model)) {
    out.results.push_back({item.name, item.local.grad()});
  }
  for (const Parameter& item : buffers_of(*model)) out.results.push_back(item);
  out.results.push_back({"drawn", at::rand({4})});
  return out;
}

struct Case {
  const char* yaml;
  bool images;
  int64_t blocks;
};

TEST(RecomputeTest, EveryBitIsThatOfOnePass) {
  const Case cases[] = {
      {"{type: gpt, num_layers: 3, hidden_size: 8, num_heads: 2, dropout: 0.2}", false, 3},
      {"{type: llama, num_layers: 2, hidden_size: 8, num_heads: 2, num_kv_heads: 1, "
       "attention_dropout: 0.2}",
       false, 2},
      {"{type: bert, num_layers: 2, hidden_size: 8, num_heads: 2, dropout: 0.2}", false, 2},
      {"{type: resnet, embedding_size: 4}", true, 8},
  };
  for (const Case& item : cases) {
    for (const bool autocast : {false, true}) {
      const Pass once = pass_of(item.yaml, item.images, autocast, ActivationCheckpointing::kNone);
      for (const auto mode :
           {ActivationCheckpointing::kSelective, ActivationCheckpointing::kBlocks}) {
        SCOPED_TRACE(text("{}{}, {}", item.yaml, autocast ? ", bf16" : "", static_cast<int>(mode)));
        const Pass twice = pass_of(item.yaml, item.images, autocast, mode);
        EXPECT_EQ(twice.blocks, item.blocks);
        ASSERT_EQ(once.results.size(), twice.results.size());
        for (size_t i = 0; i < once.results.size(); ++i) {
          const at::Tensor &a = once.results[i].local, &b = twice.results[i].local;
          ASSERT_EQ(a.defined(), b.defined()) << once.results[i].name;
          EXPECT_TRUE(!a.defined() || a.equal(b)) << once.results[i].name;
        }
      }
    }
  }
}

TEST(RecomputeTest, WhatIsComputedIsForgottenAndComputedOnceMore) {
  const at::Tensor x = at::ones({3}).requires_grad_();
  int calls = 0, finished = 0;
  auto middle = x.storage().getWeakStorageImpl();
  const at::Tensor y = checkpoint([&] {
    ++calls;
    const at::Tensor squared = x.square();
    middle = squared.storage().getWeakStorageImpl();
    const at::Tensor cubed = squared.mul(x);
    ++finished;
    return cubed.sum();
  });
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(is_recomputing());
  EXPECT_TRUE(middle.expired());
  y.backward();
  EXPECT_TRUE(x.grad().equal(at::full({3}, 3.0)));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(finished, 1) << "the second call ends with the last tensor that is wanted";
}

/// The second pass has another factor: the stored product does not show it, its input does.
TEST(RecomputeTest, SelectiveRecomputationTakesTheStoredProduct) {
  const at::Tensor x = at::full({1, 1}, 0.5), weight = at::full({1, 1}, 2.0).requires_grad_();
  double factor = 1;
  const at::Tensor y =
      checkpoint([&] { return at::mm(x.mul(factor), weight).square().mul(3).sum(); },
                 ActivationCheckpointing::kSelective);
  factor = 10;
  y.backward();
  EXPECT_EQ(weight.grad().item().toDouble(), 3 * 2 * (0.5 * 2.0) * (0.5 * 10));
}

/// The last product is not among what recomputation reaches.
TEST(RecomputeTest, SelectiveRecomputationStoresNothingThatIsNotReached) {
  const at::Tensor x = at::ones({2, 2}).requires_grad_();
  auto first = x.storage().getWeakStorageImpl(), last = first;
  const at::Tensor y = checkpoint(
      [&] {
        const at::Tensor product = at::mm(x, x);
        const at::Tensor output = at::mm(product.exp(), x);
        first = product.storage().getWeakStorageImpl();
        last = output.storage().getWeakStorageImpl();
        return output.add(1);
      },
      ActivationCheckpointing::kSelective);
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(last.expired());
  y.sum().backward();
  EXPECT_TRUE(first.expired());
}

/// The second pass has another factor, which the stored inputs of GELU do not show.
TEST(RecomputeTest, SelectiveRecomputationTakesTheStoredFeedForwardLayer) {
  const FeedForward layers = {{at::randn({4, 2}).requires_grad_(), at::zeros({4})},
                              {at::randn({2, 4}).requires_grad_(), at::zeros({2})},
                              GeluForm::kTanh};
  const at::Tensor x = at::randn({300, 2});
  const auto gradients = [&](double later) {
    double factor = 1;
    const at::Tensor y =
        checkpoint([&] { return feed_forward(x.mul(factor), layers).square().sum(); },
                   ActivationCheckpointing::kSelective);
    factor = later;
    return torch::autograd::grad({y}, {layers.in.weight, layers.out.weight});
  };
  const auto same = gradients(1), other = gradients(10);
  EXPECT_TRUE(other[1].equal(same[1]));
  EXPECT_TRUE(at::allclose(other[0], same[0].mul(10)));
}

TEST(RecomputeTest, OneWithinAnotherIsComputedByEach) {
  const at::Tensor x = at::full({1}, 2.0).requires_grad_();
  int inner = 0;
  const at::Tensor y = checkpoint([&] {
    const at::Tensor square = checkpoint([&] {
      ++inner;
      return x.mul(x).mul(x);
    });
    return square.mul(x);
  });
  y.backward();
  EXPECT_EQ(x.grad().item().toDouble(), 32);
  EXPECT_EQ(inner, 3);
}

TEST(RecomputeTest, WithoutGradientsNothingIsKeptOrCalledAgain) {
  const at::NoGradGuard no_grad;
  int calls = 0;
  EXPECT_EQ(checkpoint([&] {
              ++calls;
              return at::ones({1});
            })
                .item()
                .toDouble(),
            1);
  EXPECT_EQ(calls, 1);
}

TEST(RecomputeTest, ABlockThatComputesSomethingElseIsABug) {
  const at::Tensor x = at::ones({1}).requires_grad_();
  int calls = 0;
  const at::Tensor y =
      checkpoint([&] { return ++calls == 1 ? x.square().square() : x.add(1).sum(); });
  EXPECT_THROW(y.backward(), std::logic_error);
}

TEST(RecomputeTest, AModelWithoutBlocksHasNone) {
  EXPECT_EQ(checkpoint_blocks(*build<Model>("mlp", pictures())), 0);
}

}  // namespace
}  // namespace accel::activation_checkpoint_test
