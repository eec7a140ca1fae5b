// Routing to experts and the load-balancing loss, against their definitions.
#include "models/layers/expert_routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/api/block.h"

namespace accel::expert_routing_test {
namespace {

std::vector<int64_t> numbers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

at::Tensor probabilities_of(int64_t tokens, int64_t experts) {
  return at::randn({tokens, experts}).softmax(-1).set_requires_grad(true);
}

TEST(ExpertRoutingTest, TokensAreSortedByExpertAndKeepTheirOrder) {
  const at::Tensor probabilities = at::tensor({0.1F, 0.2F, 0.7F,    //
                                               0.6F, 0.1F, 0.3F,    //
                                               0.05F, 0.05F, 0.9F,  //
                                               0.25F, 0.0F, 0.75F})
                                       .view({4, 3});
  const ExpertRouting routing = route_to_experts(probabilities, {2}, false);
  EXPECT_EQ(routing.counts, (std::vector<int64_t>{3, 1, 4}));
  // Choices 2, 1 | 0, 2 | 2, 0 | 2, 0 of the four tokens; the third token's tie goes to expert 0.
  EXPECT_EQ(numbers(routing.order), (std::vector<int64_t>{2, 5, 7, 1, 0, 3, 4, 6}));
  EXPECT_EQ(numbers(routing.slots), (std::vector<int64_t>{4, 3, 0, 5, 6, 1, 7, 2}));
  EXPECT_TRUE(routing.weights.select(1, 0).equal(at::tensor({0.7F, 0.6F, 0.9F, 0.75F})));

  const at::Tensor sums = route_to_experts(probabilities, {2}, true).weights.sum(1);
  EXPECT_LT(sums.sub(1).abs().max().item<double>(), 1e-6);
}

/// Two linear experts of 5 and one without a token.
struct Layer {
  at::Tensor x = at::randn({7, 4}).set_requires_grad(true);
  at::Tensor probabilities = make_probabilities();
  at::Tensor experts = at::randn({5, 4, 4}).set_requires_grad(true);

  static at::Tensor make_probabilities() {
    at::Tensor logits = at::randn({7, 5});
    logits.select(1, 3).fill_(-20);  // no token prefers it
    return logits.softmax(-1).set_requires_grad(true);
  }
  at::Tensor mixed(bool normalize) const {
    const ExpertRouting routing = route_to_experts(probabilities, {2}, normalize);
    EXPECT_EQ(routing.counts[3], 0);
    return mix_experts(x, routing, [&](size_t i, const at::Tensor& rows) {
      return at::linear(rows, experts[static_cast<int64_t>(i)]).tanh();
    });
  }
  at::Tensor by_definition(bool normalize) const {
    const auto [chosen, indices] = probabilities.topk(2, -1);
    std::vector<at::Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const at::Tensor weights = normalize ? chosen[t] / chosen[t].sum() : chosen[t];
      at::Tensor sum;
      for (int64_t i = 0; i < 2; ++i) {
        const at::Tensor& expert = experts[indices[t][i].item<int64_t>()];
        const at::Tensor part = at::linear(x[t], expert).tanh() * weights[i];
        sum = sum.defined() ? sum + part : part;
      }
      rows.push_back(sum);
    }
    return at::stack(rows);
  }
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

TEST(ExpertRoutingTest, TheMixtureAndItsGradientsAreTheDefinitions) {
  for (const bool normalize : {false, true}) {
    const Layer layer;
    const at::Tensor ours = layer.mixed(normalize), theirs = layer.by_definition(normalize);
    EXPECT_LT(largest_difference(ours, theirs), 1e-6);
    const std::vector<at::Tensor> leaves = {layer.x, layer.probabilities, layer.experts};
    std::vector<at::Tensor> gradients;
    const at::Tensor factors = at::rand({7, 4});
    ours.mul(factors).sum().backward();
    for (const at::Tensor& leaf : leaves) {
      gradients.push_back(leaf.grad().clone());
      leaf.mutable_grad().reset();
    }
    theirs.mul(factors).sum().backward();
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LT(largest_difference(gradients[i], leaves[i].grad()), 1e-6) << i;
    }
    EXPECT_EQ(gradients[2][3].abs().max().item<double>(), 0) << "an expert without tokens";
  }
}

/// experts * sum over experts of their tokens' share times the mean probability, over all layers.
at::Tensor balance_by_definition(const std::vector<at::Tensor>& layers, int64_t k,
                                 const at::Tensor& mask) {
  const int64_t experts = layers[0].size(1);
  at::Tensor reached, sums;
  for (const at::Tensor& layer : layers) {
    const at::Tensor chosen = at::one_hot(std::get<1>(layer.topk(k, -1)), experts).sum(1);
    const at::Tensor own_reached = (chosen * mask.unsqueeze(1)).sum(0);
    const at::Tensor own_sums = (layer * mask.unsqueeze(1)).sum(0);
    reached = reached.defined() ? reached + own_reached : own_reached;
    sums = sums.defined() ? sums + own_sums : own_sums;
  }
  const at::Tensor tokens = mask.sum() * static_cast<double>(layers.size());
  return static_cast<double>(experts) * (reached.detach() / tokens * (sums / tokens)).sum();
}

/// An output that depends on all layers, of probabilities that LoadBalance has seen.
at::Tensor output_of(const LoadBalance& balance, const std::vector<at::Tensor>& layers, int64_t k,
                     bool checkpointed) {
  at::Tensor x = at::ones({layers[0].size(0)});
  for (const at::Tensor& layer : layers) {
    const auto compute = [&balance, layer, x, k] {
      return x * balance.add_layer(layer, {k}).square().sum(1);
    };
    x = checkpointed ? checkpoint([copy = balance, layer, x, k] {
      return x * copy.add_layer(layer, {k}).square().sum(1);
    })
                     : compute();
  }
  return x;
}

TEST(LoadBalanceTest, LossAndGradientsAreTheDefinitionOverAllLayers) {
  const at::Tensor some = at::tensor({1.0F, 1.0F, 0.0F, 1.0F, 0.0F, 1.0F});
  for (const bool checkpointed : {false, true}) {
    for (const at::Tensor& mask : {at::Tensor(), some}) {
      const std::vector<at::Tensor> layers = {probabilities_of(6, 4), probabilities_of(6, 4),
                                              probabilities_of(6, 4)};
      const LoadBalance balance(0.25, mask);
      const auto [output, loss] = balance.finish(output_of(balance, layers, 2, checkpointed));
      const at::Tensor expected =
          0.25 * balance_by_definition(layers, 2, mask.defined() ? mask : at::ones({6}));
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6);
      // As a step does: the sum of both losses, times the micro-batch's share.
      (3 * (output.sum() + loss)).backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& layer : layers) {
        gradients.push_back(layer.grad().clone());
        layer.mutable_grad().reset();
      }
      (3 * (output_of({}, layers, 2, false).sum() + expected)).backward();
      for (size_t i = 0; i < layers.size(); ++i) {
        EXPECT_LT(largest_difference(gradients[i], layers[i].grad()), 1e-5) << i;
      }
    }
  }
}

TEST(ExpertRoutingTest, ABiasChangesTheChoiceAndNotTheWeights) {
  const at::Tensor probabilities = at::tensor({0.5F, 0.3F, 0.2F,  //
                                               0.1F, 0.2F, 0.7F})
                                       .view({2, 3});
  const ExpertChoice choice = {.k = 1, .bias = at::tensor({0.0F, 0.25F, 0.0F})};
  const ExpertRouting routing = route_to_experts(probabilities, choice, false);
  EXPECT_EQ(routing.counts, (std::vector<int64_t>{0, 1, 1}));
  EXPECT_TRUE(routing.weights.equal(at::tensor({0.3F, 0.7F}).view({2, 1})));
}

TEST(ExpertRoutingTest, LoadsAreMultiplesOfTheMeanOfTheirLayer) {
  const at::Tensor loads = at::tensor({1.0F, 3.0F, 0.0F, 0.0F}).view({2, 2});
  EXPECT_EQ(relative_loads(loads), (std::map<std::string, double>{{"expert_load/0", 0.25},
                                                                  {"expert_load/1", 0.75},
                                                                  {"expert_load/max", 1.5},
                                                                  {"expert_load/min", 0}}));
}

TEST(LoadBalanceTest, TheLoadIsThatOfTheChoiceAndIsCountedOnce) {
  const at::Tensor probabilities = probabilities_of(6, 4);
  const ExpertChoice choice = {
      .k = 2, .bias = at::tensor({0.0F, 9.0F, 0.0F, 0.0F}), .load = at::zeros({4})};
  const LoadBalance balance(0, at::tensor({1.0F, 1.0F, 0.0F, 1.0F, 1.0F, 1.0F}));
  const at::Tensor x = at::ones({6}).set_requires_grad(true);
  const at::Tensor output = checkpoint([balance, probabilities, choice, x] {
    return x * balance.add_layer(probabilities, choice).square().sum(1);
  });
  balance.finish(output).output.sum().backward();
  EXPECT_EQ(choice.load[1].item<double>(), 5);
  EXPECT_EQ(choice.load.sum().item<double>(), 10);
}

TEST(LoadBalanceTest, AnUnusedLossChangesNoGradient) {
  const std::vector<at::Tensor> layers = {probabilities_of(6, 4)};
  const LoadBalance balance(0.25, at::Tensor());
  balance.finish(output_of(balance, layers, 2, false)).output.sum().backward();
  const at::Tensor gradient = layers[0].grad().clone();
  layers[0].mutable_grad().reset();
  output_of({}, layers, 2, false).sum().backward();
  EXPECT_TRUE(gradient.equal(layers[0].grad()));
}

TEST(LoadBalanceTest, StagesThatPassOnTheirSumsHaveTheBitsOfOnePass) {
  const at::Tensor mask = at::tensor({1.0F, 1.0F, 0.0F, 1.0F, 0.0F, 1.0F});
  const std::vector<at::Tensor> first = {probabilities_of(6, 4)},
                                rest = {probabilities_of(6, 4), probabilities_of(6, 4)};
  const auto gradients = [&] {
    std::vector<at::Tensor> out;
    for (at::Tensor layer : {first[0], rest[0], rest[1]}) {
      out.push_back(layer.grad().clone());
      layer.mutable_grad().reset();
    }
    return out;
  };
  const LoadBalance whole(0.25, mask);
  const at::Tensor before = output_of(whole, first, 2, false);
  const auto [all, loss] = whole.finish(before.add(output_of(whole, rest, 2, false)));
  (all.sum() + loss).backward();
  const std::vector<at::Tensor> wanted = gradients();

  const LoadBalance one(0.25, mask);
  const at::Tensor sent = output_of(one, first, 2, false);
  one.end_stage();
  const LoadBalance two(0.25, mask, {.sums = one.sums()});
  const auto [output, loss_of_stages] = two.finish(output_of(two, rest, 2, false));
  EXPECT_TRUE(loss.equal(loss_of_stages));
  (output.sum() + loss_of_stages).backward();
  one.set_gradient(two.gradient());
  sent.sum().backward();
  const std::vector<at::Tensor> found = gradients();
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(wanted[i].equal(found[i])) << i;
}

TEST(LoadBalanceTest, OnlyPaddingHasNoLoss) {
  const std::vector<at::Tensor> layers = {probabilities_of(2, 4)};
  const LoadBalance balance(0.25, at::zeros({2}));
  const auto [output, loss] = balance.finish(output_of(balance, layers, 2, false));
  EXPECT_EQ(loss.item<double>(), 0);
  (output.sum() + loss).backward();
  EXPECT_TRUE(layers[0].grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace accel::expert_routing_test
