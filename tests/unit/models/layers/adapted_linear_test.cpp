// A layer that autocast does not change, such as a router.
#include "models/layers/adapted_linear.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/api/model.h"
#include "models/layers/module_state.h"
#include "tests/unit/cpu_autocast.h"

namespace accel::adapted_linear_test {
namespace {

TEST(AdaptedLinearTest, ALayerInFloat32IsNotChangedByAutocast) {
  AdaptedLinear layer(torch::nn::LinearOptions(4, 3));
  layer->compute_in_fp32();
  const at::Tensor x = at::randn({5, 4});
  const at::Tensor wanted = layer->forward(x);
  const CpuAutocast casts(true);
  EXPECT_TRUE(layer->forward(x).equal(wanted));
  EXPECT_EQ(layer->forward(x.to(at::kBFloat16)).scalar_type(), at::kFloat);
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(AdaptedLinear(torch::nn::LinearOptions(4, 3))->forward(x).scalar_type(), at::kBFloat16);
}

/// Two layers, of which the first one computes in float32.
class TwoLayers final : public BatchModel {
 public:
  TwoLayers() {
    first_ = net_->register_module("first", AdaptedLinear(torch::nn::LinearOptions(2, 2)));
    net_->register_module("second", AdaptedLinear(torch::nn::LinearOptions(2, 2)));
    first_->compute_in_fp32();
    LoraOptions lora;
    lora.rank = 1;
    first_->adapt(lora);
  }
  at::Tensor forward_batch(const Batch& batch) override { return batch.inputs; }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "regression"; }

 private:
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  AdaptedLinear first_{nullptr};
};

TEST(AdaptedLinearTest, ShardingDoesNotGatherItsWeightsIn16Bits) {
  TwoLayers model;
  EXPECT_EQ(autocast_weights_of(model), std::vector<std::string>{"second.weight"});
}

}  // namespace
}  // namespace accel::adapted_linear_test
