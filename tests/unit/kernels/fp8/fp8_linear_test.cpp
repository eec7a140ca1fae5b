// The linear layer in fp8: errors of its three products, and options.
#include "kernels/fp8/fp8_linear.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/base/error.h"
#include "kernels/fp8/fp8_matrix.h"

namespace accel::fp8_linear_test {
namespace {

struct Passes {
  at::Tensor y, dx, dw;
};

double error_of(const at::Tensor& found, const at::Tensor& wanted) {
  const at::Tensor exact = wanted.to(at::kDouble);
  return at::linalg_vector_norm(found.to(at::kDouble).sub(exact)).item<double>() /
         at::linalg_vector_norm(exact).item<double>();
}

std::shared_ptr<Fp8Layer> layer_of(Fp8Recipe recipe) {
  auto layer = std::make_shared<Fp8Layer>();
  layer->recipe = recipe;
  return layer;
}

class Fp8LinearTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(7);
    x_ = at::randn({256, 512});
    w_ = at::randn({384, 512});
    dy_ = at::randn({256, 384});
  }

  Passes passes(const std::shared_ptr<Fp8Layer>& layer) const {
    const at::Tensor x = x_.detach().clone().requires_grad_();
    const at::Tensor w = w_.detach().clone().requires_grad_();
    const at::Tensor y = layer ? fp8_linear(x, w, layer) : at::linear(x, w);
    y.backward(dy_);
    return {y.detach(), x.grad(), w.grad()};
  }

  void expect_errors(Fp8Recipe recipe, double y, double dx, double dw) const {
    const Passes found = passes(layer_of(recipe)), wanted = passes({});
    EXPECT_LT(error_of(found.y, wanted.y), y);
    EXPECT_LT(error_of(found.dx, wanted.dx), dx);
    EXPECT_LT(error_of(found.dw, wanted.dw), dw);
    EXPECT_GT(error_of(found.y, wanted.y), 0.03);  // it is in fp8
  }

  at::Tensor x_, w_, dy_;
};

TEST_F(Fp8LinearTest, ErrorsOfTheRecipesAreWithinTheirBounds) {
  expect_errors(Fp8Recipe::kTensorwise, 0.045, 0.065, 0.065);
  expect_errors(Fp8Recipe::kRowwise, 0.045, 0.045, 0.045);
  expect_errors(Fp8Recipe::kRowwiseGwHp, 0.045, 0.045, 1e-6);
}

TEST_F(Fp8LinearTest, ProductsOfTheOverrideAreNotInFp8) {
  const Passes wanted = passes({});
  const auto layer = layer_of(Fp8Recipe::kTensorwise);
  layer->fprop = layer->wgrad = false;
  const Passes found = passes(layer);
  EXPECT_LT(error_of(found.y, wanted.y), 1e-6);
  EXPECT_GT(error_of(found.dx, wanted.dx), 0.03);
  EXPECT_LT(error_of(found.dw, wanted.dw), 1e-6);
  layer->dgrad = false;
  EXPECT_LT(error_of(passes(layer).dx, wanted.dx), 1e-6);
}

TEST_F(Fp8LinearTest, AutocastsTypeIsThatOfTheResult) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor w = w_.detach().clone().requires_grad_();
  const at::Tensor y = fp8_linear(x_.view({4, 64, 512}), w, layer_of(Fp8Recipe::kTensorwise));
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{4, 64, 384}));
  y.backward(dy_.view({4, 64, 384}).to(at::kBFloat16));
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  EXPECT_LT(error_of(w.grad(), passes({}).dw), 0.065);
}

TEST_F(Fp8LinearTest, FrozenWeightsGetNoGradient) {
  const at::Tensor x = x_.detach().clone().requires_grad_();
  fp8_linear(x, w_, layer_of(Fp8Recipe::kRowwise)).backward(dy_);
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(w_.grad().defined());
}

TEST_F(Fp8LinearTest, GatheredValuesHaveTheBitsOfTheWeight) {
  const Passes wanted = passes(layer_of(Fp8Recipe::kTensorwise));
  const Fp8Matrix gathered = to_fp8(w_, at::kFloat8_e4m3fn, /*by_row=*/false, false);
  w_ = gathered.values.to(at::kFloat);
  const auto layer = layer_of(Fp8Recipe::kTensorwise);
  layer->gathered = std::make_shared<GatheredWeight>();
  EXPECT_GT(error_of(passes(layer).y, wanted.y), 1);  // without a scale the values are the weight
  layer->gathered->inverse_scale = gathered.inverse_scale;
  const Passes found = passes(layer);
  EXPECT_TRUE(found.y.equal(wanted.y));
  EXPECT_TRUE(found.dx.equal(wanted.dx));
  EXPECT_TRUE(found.dw.equal(wanted.dw));
}

TEST_F(Fp8LinearTest, NoRowsGiveNoRows) {
  const at::Tensor y = fp8_linear(at::zeros({0, 512}), w_, layer_of(Fp8Recipe::kTensorwise));
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{0, 384}));
}

TEST_F(Fp8LinearTest, RowsArePaddedOrRefused) {
  const at::Tensor whole_x = x_, whole_dy = dy_;
  x_ = whole_x.narrow(0, 0, 200);
  dy_ = whole_dy.narrow(0, 0, 200);
  const auto layer = layer_of(Fp8Recipe::kRowwise);
  EXPECT_LT(error_of(passes(layer).dw, passes({}).dw), 0.045);
  layer->pad_inner_dim = false;
  try {
    passes(layer);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "a micro-batch has 200 rows, and the gradient of a weight in fp8 needs a multiple "
                 "of 16");
    EXPECT_EQ(error.hint(),
              "set 'accelerator.fp8.pad_inner_dim: true', or another 'train.micro_batch'");
  }
  {
    const at::NoGradGuard no_grad;  // an evaluation has no gradient
    EXPECT_NO_THROW(fp8_linear(x_, w_, layer));
  }
  layer->recipe = Fp8Recipe::kRowwiseGwHp;
  EXPECT_NO_THROW(passes(layer));
}

}  // namespace
}  // namespace accel::fp8_linear_test
