// Blocks of exported programs that are computed again in the backward pass.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "models/program/aten_graph.h"

namespace accel::program_blocks_test {
namespace {

Pt2Argument slot_of(size_t index) {
  return {Pt2Slot{index}};
}

/// {y + s, s} where s = sin(dropout(x)) and y = s * w; slot 0 is x and slot 1 is w.
Pt2Graph layered(const std::vector<std::string>& modules) {
  Pt2Graph graph;
  graph.inputs = {slot_of(0), slot_of(1)};
  graph.nodes = {
      {"dropped",
       "torch.ops.aten.dropout.default",
       modules.at(0),
       {{"input", slot_of(0)}, {"p", {0.5}}, {"train", {true}}},
       {slot_of(2)}},
      {"sin", "torch.ops.aten.sin.default", modules.at(1), {{"self", slot_of(2)}}, {slot_of(3)}},
      {"mul",
       "torch.ops.aten.mul.Tensor",
       modules.at(2),
       {{"self", slot_of(3)}, {"other", slot_of(1)}},
       {slot_of(4)}},
      {"add",
       "torch.ops.aten.add.Tensor",
       modules.at(3),
       {{"self", slot_of(4)}, {"other", slot_of(3)}},
       {slot_of(5)}}};
  graph.outputs = {slot_of(5), slot_of(3)};
  graph.slots = 6;
  return graph;
}

const std::vector<std::string> kInOneLayer = {"h.0", "h.0.attn", "h.0.mlp.2", ""};

struct Gradients {
  at::Tensor output, x, w;
};

Gradients gradients_of(const AtenGraph& graph) {
  const at::Tensor x = at::full({64}, 0.3).requires_grad_();
  const at::Tensor w = at::full({64}, 1.7).requires_grad_();
  at::manual_seed(11);
  const auto made = graph.run({x, w});
  at::Tensor output = made.at(0).toTensor();
  output.sum().add(made.at(1).toTensor().pow(2).sum()).backward();
  return {output, x.grad(), w.grad()};
}

TEST(ProgramBlocksTest, GradientsAreThoseOfOneForwardPassToTheBit) {
  for (const auto mode : {ActivationCheckpointing::kBlocks, ActivationCheckpointing::kSelective}) {
    AtenGraph plain(layered(kInOneLayer)), again(layered(kInOneLayer));
    const auto blocks = again.find_blocks();
    ASSERT_EQ(blocks.size(), 1U);
    blocks[0]->set_checkpointing(mode);
    const Gradients wanted = gradients_of(plain), got = gradients_of(again);
    EXPECT_TRUE(got.output.equal(wanted.output));
    EXPECT_TRUE(got.x.equal(wanted.x));
    EXPECT_TRUE(got.w.equal(wanted.w));
    EXPECT_GT(got.x.ne(0).sum().item<int64_t>(), 0);
    EXPECT_LT(got.x.ne(0).sum().item<int64_t>(), 64);
  }
}

TEST(ProgramBlocksTest, WhatABlockMadeIsNotKept) {
  const auto backward_after_a_change = [](bool recomputed) {
    AtenGraph graph(layered(kInOneLayer));
    for (const auto& block : graph.find_blocks()) {
      block->set_checkpointing(recomputed ? ActivationCheckpointing::kBlocks
                                          : ActivationCheckpointing::kNone);
    }
    const at::Tensor x = at::full({64}, 0.3).requires_grad_();
    const at::Tensor w = at::full({64}, 1.7).requires_grad_();
    const auto made = graph.run({x, w});
    {
      const at::NoGradGuard no_grad;
      made.at(1).toTensor().zero_();  // the sine, which the gradient of w needs
    }
    made.at(0).toTensor().sum().backward();
    return w.grad().abs().sum().item<double>();
  };
  EXPECT_THROW(backward_after_a_change(false), c10::Error);
  EXPECT_GT(backward_after_a_change(true), 0);
}

/// As OffloadedInputs: copies, without a graph, once another input is stored or backward begins.
class CopiedInputs final : public BlockInputs {
 public:
  std::function<at::Tensor()> store(const at::Tensor& input) override {
    const int64_t number = ++stored;
    return [this, number, input, copy = input.detach().clone().requires_grad_()] {
      return in_forward && number == stored ? input : copy;
    };
  }
  int64_t stored = 0;
  bool in_forward = true;
};

TEST(ProgramBlocksTest, TheInputFromTheBlockBeforeIsInTheStorage) {
  const auto gradients = [](const std::shared_ptr<CopiedInputs>& inputs) {
    Pt2Graph layers = layered({"h.0", "h.0", "h.1", "h.1.2"});
    layers.outputs = {slot_of(5)};
    AtenGraph graph(layers);
    for (const auto& block : graph.find_blocks()) {
      block->set_checkpointing(inputs != nullptr ? ActivationCheckpointing::kBlocks
                                                 : ActivationCheckpointing::kNone);
      block->set_inputs(inputs);
    }
    const at::Tensor x = at::full({64}, 0.3).requires_grad_();
    const at::Tensor w = at::full({64}, 1.7).requires_grad_();
    at::manual_seed(11);
    const at::Tensor output = graph.run({x, w}).at(0).toTensor();
    if (inputs) inputs->in_forward = false;
    output.pow(2).sum().backward();
    return std::make_pair(x.grad(), w.grad());
  };
  const auto inputs = std::make_shared<CopiedInputs>();
  const auto wanted = gradients(nullptr), found = gradients(inputs);
  EXPECT_TRUE(found.first.equal(wanted.first));
  EXPECT_TRUE(found.second.equal(wanted.second));
  EXPECT_EQ(inputs->stored, 1) << "parameters and inputs of the program stay where they are";
}

TEST(ProgramBlocksTest, ABlockIsALayerOfAListAndNotASingleCall) {
  const auto count = [](const std::vector<std::string>& modules) {
    AtenGraph graph(layered(modules));
    return graph.find_blocks().size();
  };
  EXPECT_EQ(count({"h.0", "h.0", "h.1", "h.1.2"}), 2U);
  EXPECT_EQ(count({"h.0", "h.1", "h.2", "h.3"}), 0U);
  EXPECT_EQ(count({"attn", "attn", "attn", "attn"}), 0U);
  EXPECT_EQ(count({"0", "0", "0", "0"}), 0U);
}

TEST(ProgramBlocksTest, WhatChangesItsInputIsNoBlock) {
  Pt2Graph graph = layered(kInOneLayer);
  graph.nodes[0].target = "torch.ops.aten.dropout_.default";
  graph.nodes[0].arguments[0].first = "self";
  EXPECT_TRUE(AtenGraph(graph).find_blocks().empty());
  // What was made in the block may be changed there.
  graph = layered(kInOneLayer);
  graph.nodes[1].target = "torch.ops.aten.sin_.default";
  EXPECT_EQ(AtenGraph(graph).find_blocks().size(), 1U);
}

}  // namespace
}  // namespace accel::program_blocks_test
