// Linear layers that compute in fp8.
#include "models/layers/fp8_layers.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/api/model.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/lora/lora_options.h"

namespace accel::fp8_layers_test {
namespace {

/// Four layers that support fp8, and one of each kind that does not.
class ManyLayers final : public BatchModel {
 public:
  ManyLayers() {
    for (const char* name : {"a", "b", "c", "d"}) add(name, 32, 16);
    add("odd", 32, 10);
    add("router", 32, 16)->compute_in_fp32();
    net_->register_module("other", torch::nn::Linear(32, 16));
    LoraOptions lora;
    lora.rank = 16;
    add("adapted", 32, 16)->adapt(lora);
    net_->register_module("lm_head", TiedHead(32, 16));
  }
  at::Tensor forward_batch(const Batch& batch) override { return batch.inputs; }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "regression"; }

 private:
  AdaptedLinear add(const char* name, int64_t inputs, int64_t outputs) {
    return net_->register_module(name, AdaptedLinear(torch::nn::LinearOptions(inputs, outputs)));
  }
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
};

using Filter = std::optional<std::vector<std::string>>;

std::string summary(const Filter& filter) {
  ManyLayers model;
  return fp8_summary(fp8_candidates(model, filter, {}));
}

std::string error_of(const Filter& filter) {
  ManyLayers model;
  try {
    fp8_candidates(model, filter, {});
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

constexpr auto kOthers =
    "odd (32 x 10, no multiples of 16), router (in float32), other (of another class), lm_head "
    "(part of the loss)";

TEST(Fp8LayersTest, TheFirstLayerAndOthersStayAsTheyAre) {
  EXPECT_EQ(summary(std::nullopt),
            std::string("4 of 9 linear layers; in bf16: a (the first), ") + kOthers);
}

TEST(Fp8LayersTest, AFilterNamesThemInstead) {
  EXPECT_EQ(summary(std::vector<std::string>{}),
            std::string("5 of 9 linear layers; in bf16: ") + kOthers);
  EXPECT_EQ(
      summary(std::vector<std::string>{"[abcd]"}),
      std::string("1 of 9 linear layers; in bf16: a, b and 2 more (by 'filter'), ") + kOthers);
}

TEST(Fp8LayersTest, GatheredWeightsAreThoseOfTheirLayers) {
  ManyLayers model;
  EXPECT_TRUE(fp8_gathered_weights(model).empty());
  std::map<std::string, std::shared_ptr<GatheredWeight>> wanted;
  for (const Fp8Candidate& candidate : fp8_candidates(model, std::nullopt, {})) {
    if (!candidate.reason.empty()) continue;
    EXPECT_TRUE(reads_fp8_alone(candidate));
    const auto layer = std::make_shared<Fp8Layer>();
    if (candidate.name != "b") {
      layer->gathered = wanted[candidate.name + ".weight"] = std::make_shared<GatheredWeight>();
    }
    set_fp8(candidate, layer);
  }
  EXPECT_EQ(wanted.size(), 3u);
  EXPECT_EQ(fp8_gathered_weights(model), wanted);
}

TEST(Fp8LayersTest, DoraReadsTheWeightItself) {
  AdaptedLinear layer(torch::nn::LinearOptions(32, 16));
  LoraOptions lora;
  lora.rank = 4;
  lora.dora = true;
  layer->adapt(lora);
  EXPECT_FALSE(reads_fp8_alone({"layer", layer.get(), ""}));
}

TEST(Fp8LayersTest, AFilterHasAnEffectAndLeavesALayer) {
  EXPECT_NE(error_of(std::vector<std::string>{"e"}).find("'e' matches no linear layer"),
            std::string::npos);
  EXPECT_NE(error_of(std::vector<std::string>{"*"})
                .find("no linear layer can compute in fp8: 0 of 9 linear layers; in bf16: a, b and "
                      "3 more (by 'filter'), "),
            std::string::npos)
      << error_of(std::vector<std::string>{"*"});
}

class NoLayers final : public BatchModel {
 public:
  at::Tensor forward_batch(const Batch& batch) override { return batch.inputs; }
  torch::nn::Module& module() override { return net_; }
  const char* default_task() const override { return "regression"; }

 private:
  torch::nn::Module net_;
};

TEST(Fp8LayersTest, AModelWithoutLinearLayersIsRefused) {
  NoLayers model;
  try {
    fp8_candidates(model, std::nullopt, {});
    FAIL() << "accepted";
  } catch (const RecipeError& error) {
    EXPECT_NE(
        std::string(error.what()).find("no linear layer can compute in fp8: the model has none"),
        std::string::npos);
  }
}

class Fp8LayerTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    layer_ = AdaptedLinear(torch::nn::LinearOptions(32, 16));
    x_ = at::randn({16, 32});
    plain_ = layer_->forward(x_);
  }
  bool is_near(const at::Tensor& y) const {
    return !y.equal(plain_) && y.sub(plain_).abs().max().item<float>() < 0.2;
  }

  AdaptedLinear layer_{nullptr};
  at::Tensor x_, plain_;
  std::shared_ptr<Fp8Layer> fp8_ = std::make_shared<Fp8Layer>();
};

TEST_F(Fp8LayerTest, TheProductIsInFp8AndTheBiasIsAdded) {
  layer_->compute_in_fp8(fp8_);
  EXPECT_FALSE(layer_->is_plain());
  const at::Tensor y = layer_->forward(x_);
  EXPECT_TRUE(is_near(y));
  EXPECT_TRUE(y.equal(fp8_linear(x_, layer_->weight, fp8_).add(layer_->bias)));
}

TEST_F(Fp8LayerTest, EvaluationsMayBeInAutocastsType) {
  layer_->compute_in_fp8(fp8_);
  layer_->eval();
  EXPECT_TRUE(is_near(layer_->forward(x_)));
  fp8_->in_evaluation = false;
  EXPECT_TRUE(layer_->forward(x_).equal(plain_));
  layer_->train();
  EXPECT_TRUE(is_near(layer_->forward(x_)));
}

/// The fused kernels of a layer with its activation read the weight themselves.
TEST_F(Fp8LayerTest, AnActivationIsComputedFromTheProductInFp8) {
  layer_->compute_in_fp8(fp8_);
  const at::Tensor y = activate(HfActivation::kGelu, *layer_, x_);
  EXPECT_TRUE(y.equal(activate(HfActivation::kGelu, layer_->forward(x_))));
}

TEST_F(Fp8LayerTest, AnAdapterIsAddedToTheProductInFp8) {
  LoraOptions lora;
  lora.rank = 4;
  layer_->adapt(lora);  // B is zero
  layer_->compute_in_fp8(fp8_);
  EXPECT_TRUE(layer_->forward(x_).equal(fp8_linear(x_, layer_->weight, fp8_).add(layer_->bias)));
}

}  // namespace
}  // namespace accel::fp8_layers_test
