// Variants of LoRA on one layer: PiSSA and OLoRA, DoRA, biases, and ranks by layer. PEFT's own
// numbers are compared in tests/interop/check_lora.py.
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/base/error.h"
#include "models/layers/adapted_linear.h"
#include "models/lora/adapters_off.h"

namespace accel::lora_variants_test {
namespace {

LoraOptions of_rank(int64_t rank) {
  LoraOptions lora;
  lora.rank = rank;
  lora.alpha = {3.0};
  return lora;
}

AdaptedLinear layer_of(int64_t inputs, int64_t outputs) {
  at::manual_seed(3);
  return AdaptedLinear(torch::nn::LinearOptions(inputs, outputs));
}

at::Tensor parameter(const AdaptedLinear& layer, const char* name) {
  return layer->named_parameters()[name].detach();
}

TEST(LoraVariantsTest, TheStartOfPissaAndOloraTakesAPartOfTheWeight) {
  for (const LoraInit init : {LoraInit::kPissa, LoraInit::kOlora}) {
    AdaptedLinear layer = layer_of(7, 5);
    const at::Tensor before = layer->weight.detach().clone();
    const at::Tensor x = at::randn({4, 7});
    const at::Tensor wanted = layer->forward(x).detach();
    LoraOptions lora = of_rank(2);
    lora.init = init;
    layer->adapt(lora);
    EXPECT_TRUE(layer->forward(x).allclose(wanted, 1e-5, 1e-6)) << "the same function";
    const at::Tensor part = before.sub(layer->weight);
    EXPECT_GT(part.abs().max().item<double>(), 0.01);
    EXPECT_TRUE(part.allclose(
        parameter(layer, "lora_B.weight").mm(parameter(layer, "lora_A.weight")).mul(1.5), 1e-5,
        1e-6));
    if (init != LoraInit::kPissa) continue;
    // Of rank 2, no part leaves less behind (Eckart and Young).
    const at::Tensor values = std::get<1>(before.svd());
    EXPECT_NEAR(layer->weight.detach().norm().item<double>(),
                values.slice(0, 2).norm().item<double>(), 1e-5);
  }
}

TEST(LoraVariantsTest, ThePartHasARankThatTheWeightHas) {
  LoraOptions lora = of_rank(6);
  lora.init = LoraInit::kPissa;
  try {
    layer_of(7, 5)->adapt(lora);
    FAIL() << "no complaint";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    EXPECT_STREQ(error.what(),
                 "'lora.init' pissa and olora need a rank of at most 5, the smaller side of a "
                 "weight");
  }
}

TEST(LoraVariantsTest, DoraScalesTheRowsOfTheAdaptedWeight) {
  AdaptedLinear layer = layer_of(7, 5);
  const at::Tensor norms = at::linalg_vector_norm(layer->weight.detach(), 2, {1});
  const at::Tensor x = at::randn({4, 7});
  const at::Tensor plain = layer->forward(x).detach();
  LoraOptions lora = of_rank(2);
  lora.dora = true;
  layer->adapt(lora);
  EXPECT_TRUE(parameter(layer, "lora_magnitude_vector").allclose(norms));
  EXPECT_TRUE(layer->forward(x).allclose(plain, 1e-5, 1e-6)) << "the adapter starts at zero";
  parameter(layer, "lora_B.weight").fill_(0.2);
  parameter(layer, "lora_magnitude_vector").mul_(1.25);
  const at::Tensor adapted = layer->weight.detach().add(
      parameter(layer, "lora_B.weight").mm(parameter(layer, "lora_A.weight")).mul(1.5));
  const at::Tensor rows = norms.mul(1.25).div(at::linalg_vector_norm(adapted, 2, {1}));
  const at::Tensor wanted = at::linear(x, adapted.mul(rows.unsqueeze(1)), layer->bias.detach());
  EXPECT_TRUE(layer->forward(x).allclose(wanted, 1e-5, 1e-6));
  const AdaptersOff base;
  EXPECT_TRUE(layer->forward(x).equal(plain));
}

TEST(LoraVariantsTest, TheSecondMatrixMayHaveABias) {
  AdaptedLinear layer = layer_of(7, 5);
  const at::Tensor x = at::randn({4, 7});
  const at::Tensor plain = layer->forward(x).detach();
  LoraOptions lora = of_rank(2);
  lora.lora_bias = true;
  layer->adapt(lora);
  EXPECT_TRUE(layer->forward(x).equal(plain));
  parameter(layer, "lora_B.bias").fill_(2);
  EXPECT_TRUE(layer->forward(x).allclose(plain.add(3), 1e-5, 1e-6)) << "scaled by alpha / rank";
}

TEST(LoraVariantsTest, PatternsGiveALayerItsRankAndAlpha) {
  LoraOptions lora = of_rank(2);
  lora.rank_pattern = {{"*.q_proj", 4}};
  lora.alpha_pattern = {{"*.0.*", 8.0}};
  const LoraOptions both = lora.for_layer("layers.0.q_proj");
  EXPECT_EQ(both.rank, 4);
  EXPECT_EQ(both.scale(), 2);
  const LoraOptions neither = lora.for_layer("layers.1.v_proj");
  EXPECT_EQ(neither.rank, 2);
  EXPECT_EQ(neither.scale(), 1.5);
}

}  // namespace
}  // namespace accel::lora_variants_test
