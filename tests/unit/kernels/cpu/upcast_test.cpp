#include "kernels/cpu/upcast.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/array.h"
#include "kernels/cpu_operators.h"
#include "tests/unit/kernels/reference_kernels.h"

namespace accel::upcast_test {
namespace {

using Tensors = std::vector<at::Tensor>;

struct WideCase {
  std::string name;
  std::vector<Shape> in;
  std::function<at::Tensor(const Tensors&)> out;
  double float32_within = 0;  // more where float32 has its own kernel
};

const WideCase kWideCases[] = {
    {"Mm", {{33, 70}, {70, 20}}, [](const Tensors& in) { return at::mm(in[0], in[1]); }},
    {"Bmm", {{3, 33, 70}, {3, 70, 20}}, [](const Tensors& in) { return at::bmm(in[0], in[1]); }},
    {"Addmm",
     {{20}, {33, 70}, {70, 20}},
     [](const Tensors& in) { return at::addmm(in[0], in[1], in[2], 0.5, 2.0); }},
    {"Baddbmm",
     {{3, 1, 20}, {3, 33, 70}, {3, 70, 20}},
     [](const Tensors& in) { return at::baddbmm(in[0], in[1], in[2], 0.5, 2.0); }},
    {"Transposed",
     {{70, 33}, {20, 70}},
     [](const Tensors& in) { return at::mm(in[0].t(), in[1].t()); }},
    {"Attention",
     {{2, 3, 17, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}},
     [](const Tensors& in) {
       return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, true);
     },
     1e-5},
    {"AttentionWithAMask",
     {{2, 3, 17, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}, {17, 17}},
     [](const Tensors& in) {
       return at::scaled_dot_product_attention(in[0], in[1], in[2], in[3].detach());
     },
     1e-5},
    {"Convolution",
     {{2, 16, 9, 9}, {16, 16, 3, 3}, {16}},
     [](const Tensors& in) {
       return at::conv2d(in[0], in[1], in[2], {1, 1}, {1, 1});
     }},
    {"ConvolutionOfThreeChannels",
     {{2, 3, 9, 9}, {4, 3, 3, 3}, {4}},
     [](const Tensors& in) {
       return at::conv2d(in[0], in[1], in[2], {2, 2}, {1, 1});
     },
     3e-6},
    {"ConvolutionOfOneChannel",
     {{2, 1, 9, 9}, {4, 1, 3, 3}, {4}},
     [](const Tensors& in) {
       return at::conv2d(in[0], in[1], in[2], {2, 2}, {1, 1});
     },
     3e-6},
};

class WideningTest : public testing::TestWithParam<WideCase> {
 protected:
  void SetUp() override { use_kernels(Kernels::kFused); }
  void TearDown() override { use_kernels(Kernels::kReference); }

  static Tensors inputs(at::ScalarType type) {
    at::manual_seed(7);
    Tensors in;
    for (const Shape& shape : GetParam().in) in.push_back(at::randn(shape).to(type));
    return in;
  }

  /// The result in `type` and its gradients, of which an input that has none has zeros.
  static Tensors passes(at::ScalarType type) {
    Tensors in = inputs(type);
    for (at::Tensor& each : in) each.requires_grad_();
    Tensors out = {GetParam().out(in)};
    const at::Tensor loss = (out[0].to(at::kFloat) * out[0].to(at::kFloat)).sum();
    for (const at::Tensor& each : torch::autograd::grad({loss}, in, {}, {}, false, true)) {
      if (each.defined()) out.push_back(each);
    }
    return out;
  }
};

TEST_P(WideningTest, RoundsWhatFloat32Gives) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const Tensors found = passes(type);
    const ReferenceKernels reference;
    const Tensors wanted = passes(type);
    ASSERT_EQ(found.size(), wanted.size());
    const double unit = type == at::kHalf ? 1.0 / 1024 : 1.0 / 128;  // between neighbours at 1
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), type);
      const double apart =
          (found[i].to(at::kDouble) - wanted[i].to(at::kDouble)).abs().max().item<double>();
      EXPECT_LE(apart, 2 * unit * wanted[i].to(at::kDouble).abs().max().item<double>()) << i;
    }
  }
}

TEST_P(WideningTest, LeavesFloat32AsItIs) {
  const Tensors found = passes(at::kFloat);
  const ReferenceKernels reference;
  const Tensors wanted = passes(at::kFloat);
  for (size_t i = 0; i < found.size(); ++i) {
    const double apart = (found[i] - wanted[i]).abs().max().item<double>();
    EXPECT_LE(apart, GetParam().float32_within * wanted[i].abs().max().item<double>()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WideningTest, testing::ValuesIn(kWideCases),
                         [](const auto& info) { return info.param.name; });

TEST(WideTest, ComputesInFloat32AndRoundsOnce) {
  at::manual_seed(8);
  const at::Tensor c = at::randn({5}), a = at::randn({4, 300}), b = at::randn({300, 5});
  const auto halved = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  const at::Tensor wanted =
      at::addmm(halved(c).to(at::kFloat), halved(a).to(at::kFloat), halved(b).to(at::kFloat));
  const at::Tensor found = compute_in_fp32<&at::cpu::addmm>(halved(c), halved(a), halved(b),
                                                            at::Scalar(1), at::Scalar(1));
  EXPECT_TRUE(found.equal(halved(wanted)));
}

TEST(WideTest, IsTakenOnlyByFusedKernelsOfProcessorsThatNeedIt) {
  at::manual_seed(9);
  const at::Tensor a = at::randn({64, 500}).to(at::kBFloat16);
  const at::Tensor b = at::randn({500, 64}).to(at::kBFloat16);
  const at::Tensor atens = at::cpu::mm(a, b), wide = compute_in_fp32<&at::cpu::mm>(a, b);
  use_kernels(Kernels::kFused);
  EXPECT_TRUE(at::mm(a, b).equal(upcasts(at::kBFloat16) ? wide : atens));
  {
    const ReferenceKernels reference;
    EXPECT_TRUE(at::mm(a, b).equal(atens));
  }
  use_kernels(Kernels::kReference);
  EXPECT_TRUE(at::mm(a, b).equal(atens));
}

TEST(WideTest, AttentionsGradientsAreRoundedOnceWhereThereAreNoTiles) {
  at::manual_seed(10);
  use_kernels(Kernels::kFused);
  Tensors in;
  for (int i = 0; i < 4; ++i) in.push_back(at::randn({2, 3, 40, 16}).to(at::kBFloat16));
  const auto [out, logs] =
      at::_scaled_dot_product_flash_attention_for_cpu(in[0], in[1], in[2], 0, true);
  const auto backward = [&, &y = out, &sums = logs](auto convert) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        convert(in[3]), convert(in[0]), convert(in[1]), convert(in[2]), convert(y), sums, 0, true);
  };
  const auto found = backward([](const at::Tensor& x) { return x; });
  const auto rounded =
      downcast(backward([](const at::Tensor& x) { return upcast(x); }), at::kBFloat16);
  EXPECT_EQ(std::get<1>(found).equal(std::get<1>(rounded)),
            upcasts_attention_gradients(at::kBFloat16));
  EXPECT_EQ(std::get<2>(found).equal(std::get<2>(rounded)),
            upcasts_attention_gradients(at::kBFloat16));
  use_kernels(Kernels::kReference);
}

TEST(WideTest, TypesThatDoNotFitAreRefusedAsEver) {
  use_kernels(Kernels::kFused);
  const at::Tensor a = at::randn({4, 4});
  EXPECT_THROW(at::mm(a.to(at::kBFloat16), a), c10::Error);
  EXPECT_THROW(at::mm(a, a.to(at::kBFloat16)), c10::Error);
  use_kernels(Kernels::kReference);
  EXPECT_FALSE(upcasts(at::kFloat));
  EXPECT_FALSE(upcasts(at::kDouble));
}

}  // namespace
}  // namespace accel::upcast_test
