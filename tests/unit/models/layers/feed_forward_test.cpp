// Feed-forward layers of models, of which kernels/feed_forward.h computes those that are plain.
#include <ATen/ops/allclose.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "core/api/tensor_parallel.h"
#include "kernels/cpu_operators.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_linear.h"

namespace accel::feed_forward_test {
namespace {

/// One of two ranks whose outputs are equal.
class EqualRanks final : public TensorRanks {
 public:
  EqualRanks() : TensorRanks(/*rank=*/0, /*size=*/2) {}

  bool divides_sequence() const override { return false; }
  at::Tensor enter(const at::Tensor& x) const override { return x; }
  at::Tensor leave(const at::Tensor& x) const override { return x.mul(2); }
  at::Tensor gather_features(const at::Tensor& x, int64_t /*size*/) const override { return x; }
  at::Tensor reduce(const at::Tensor& x, Reduce /*how*/) const override { return x; }
  std::unique_ptr<RandomScope> own_random_stream(at::Device /*device*/) const override {
    return nullptr;
  }
};

class FeedForwardLayersTest : public testing::Test {
 protected:
  void SetUp() override {
    use_kernels(Kernels::kFused);
    at::manual_seed(5);
  }
  void TearDown() override { use_kernels(Kernels::kReference); }

  const at::Tensor x_ = at::randn({2, 150, 16});
  AdaptedLinear in_{16, 48}, out_{48, 16};
};

void adapt(AdaptedLinear& layer) {
  LoraOptions lora;
  lora.rank = 2;
  layer->adapt(lora);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : layer->parameters()) parameter.normal_();
}

TEST_F(FeedForwardLayersTest, PlainLayersAreThoseOneByOne) {
  for (const auto& [activation, form] :
       {std::pair(HfActivation::kGelu, "none"), std::pair(HfActivation::kGeluTanh, "tanh")}) {
    const at::Tensor inner = at::gelu(at::linear(x_, in_->weight, in_->bias), form);
    const at::Tensor wanted = at::linear(inner, out_->weight, out_->bias);
    EXPECT_TRUE(at::allclose(feed_forward(activation, *in_, *out_, x_), wanted, 1e-5, 1e-5));
  }
}

TEST_F(FeedForwardLayersTest, OtherLayersKeepWhatIsTheirs) {
  const std::function<void(AdaptedLinear&, AdaptedLinear&)> changes[] = {
      [](AdaptedLinear& in, AdaptedLinear&) { adapt(in); },
      [](AdaptedLinear&, AdaptedLinear& out) { adapt(out); },
      [](AdaptedLinear&, AdaptedLinear& out) {
        out->divide_inputs(std::make_shared<EqualRanks>());
      },
  };
  for (const auto& change : changes) {
    AdaptedLinear in(16, 48), out(48, 16);
    const at::Tensor before = feed_forward(HfActivation::kGelu, *in, *out, x_);
    change(in, out);
    const at::Tensor wanted = out->forward(at::gelu(in->forward(x_)));
    EXPECT_FALSE(at::allclose(before, wanted, 1e-3, 1e-3));
    EXPECT_TRUE(at::allclose(feed_forward(HfActivation::kGelu, *in, *out, x_), wanted, 1e-5, 1e-5));
  }
}

TEST_F(FeedForwardLayersTest, OtherActivationsAreNotGelu) {
  const at::Tensor wanted = out_->forward(in_->forward(x_).relu());
  EXPECT_TRUE(feed_forward(HfActivation::kRelu, *in_, *out_, x_).equal(wanted));
}

}  // namespace
}  // namespace accel::feed_forward_test
