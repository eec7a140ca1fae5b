#include "train/optim/layer_decay.h"
#include "core/recipe/number_text.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/api/optimizer.h"
#include "tests/unit/build_component.h"

namespace accel::layer_decay_test {
namespace {

OptimizerContext parameters(const std::vector<std::string>& names) {
  OptimizerContext context;
  for (const std::string& name : names) context.parameters.push_back({name, at::zeros({2, 2})});
  return context;
}

/// The groups as "a b: rate | c: rate".
std::string rates_of(const std::string& yaml, const std::vector<std::string>& names) {
  const auto optimizer = build<Optimizer>(yaml, parameters(names));
  const std::vector<double> rates = optimizer->base_lrs();
  const OptimizerState state = optimizer->state();
  std::string out;
  for (size_t g = 0; g < rates.size(); ++g) {
    if (g > 0) out += " | ";
    for (const auto& parameter : state.groups[g].parameters) out += parameter.name + " ";
    out += show_number(rates[g]);
  }
  return out;
}

const std::vector<std::string> kGpt = {"wte.weight", "h.0.ln.weight", "h.0.mlp.weight",
                                       "h.1.ln.weight", "ln_f.weight"};

TEST(LayerDecayTest, EachLayerHasLessThanTheOneAbove) {
  EXPECT_EQ(rates_of("{type: sgd, lr: 1, layer_decay: 0.5}", kGpt),
            "wte.weight 0.125 | h.0.ln.weight h.0.mlp.weight 0.25 | h.1.ln.weight 0.5 | "
            "ln_f.weight 1");
}

TEST(LayerDecayTest, WithoutItNothingIsSplit) {
  EXPECT_EQ(rates_of("{type: sgd, lr: 1}", kGpt),
            "wte.weight h.0.ln.weight h.0.mlp.weight h.1.ln.weight ln_f.weight 1");
}

TEST(LayerDecayTest, AGroupIsSplitWithItsOwnRate) {
  EXPECT_EQ(
      rates_of("{type: sgd, lr: 1, layer_decay: 0.5, groups: [{match: '*.ln.*', lr: 8}]}", kGpt),
      "h.0.ln.weight 2 | h.1.ln.weight 4 | wte.weight 0.125 | h.0.mlp.weight 0.25 | "
      "ln_f.weight 1");
}

TEST(LayerDecayTest, StagesOfBlocksAreALadderToo) {
  EXPECT_EQ(rates_of("{type: sgd, lr: 1, layer_decay: 0.5}",
                     {"conv1.weight", "layer1.0.conv1.weight", "layer1.1.conv1.weight",
                      "layer2.0.conv1.weight", "fc.weight"}),
            "conv1.weight 0.0625 | layer1.0.conv1.weight 0.125 | layer1.1.conv1.weight 0.25 | "
            "layer2.0.conv1.weight 0.5 | fc.weight 1");
}

TEST(LayerDecayTest, WhatIsFrozenBelowChangesNothingAbove) {
  EXPECT_EQ(rates_of("{type: adamw, lr: 1, layer_decay: 0.5}", {"h.1.ln.weight", "ln_f.weight"}),
            "h.1.ln.weight 0.5 | ln_f.weight 1");
}

TEST(LayerDecayTest, MuonDecaysItsMatricesAndAdamwTheRest) {
  EXPECT_EQ(rates_of("{type: muon, lr: 1, layer_decay: 0.5, adamw: {lr: 8, layer_decay: 0.25}}",
                     {"wte.weight", "h.0.mlp.weight", "h.0.embed.weight", "h.1.mlp.weight"}),
            "h.0.mlp.weight 0.25 | h.1.mlp.weight 0.5 | wte.weight 0.5 | h.0.embed.weight 2");
}

TEST(LayerDecayTest, AnUpdateMovesEachLayerByItsRate) {
  const OptimizerContext context = parameters(kGpt);
  const auto optimizer = build<Optimizer>("{type: sgd, lr: 1, layer_decay: 0.5}", context);
  for (const Parameter& item : context.parameters) item.local.mutable_grad() = at::ones({2, 2});
  optimizer->set_lrs(optimizer->base_lrs());
  optimizer->step();
  const std::vector<double> moved = {0.125, 0.25, 0.25, 0.5, 1};
  for (size_t i = 0; i < moved.size(); ++i) {
    EXPECT_EQ(context.parameters[i].local.select(0, 0).select(0, 0).item().toDouble(), -moved[i]);
  }
}

struct BadDecay {
  const char* yaml;
  const char* error;
};

TEST(LayerDecayTest, MistakesAreNamed) {
  const BadDecay cases[] = {
      {"{type: sgd, layer_decay: 0.5}",
       "'layer_decay' finds no layers: no parameter's name has a number, as 'h.0.mlp.weight' has"},
      {"{type: sgd, layer_decay: 1.5}",
       "recipe.yaml:1:26: error: 'layer_decay' must be in (0, 1], not 1.5\n"
       "    {type: sgd, layer_decay: 1.5}\n"
       "                             ^\n"},
      {"{type: sgd, layer_decay: 0}",
       "recipe.yaml:1:26: error: 'layer_decay' must be in (0, 1], not 0\n"
       "    {type: sgd, layer_decay: 0}\n"
       "                             ^\n"},
  };
  const std::vector<std::string> names = {"fc1.weight", "fc1.bias", "fc2.weight"};
  for (const BadDecay& bad : cases) {
    EXPECT_EQ(complaint<Optimizer>(bad.yaml, parameters(names)), bad.error);
  }
}

}  // namespace
}  // namespace accel::layer_decay_test
