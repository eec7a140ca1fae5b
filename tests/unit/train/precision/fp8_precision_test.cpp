// Delayed scaling as a precision: updates and state.
#include "train/precision/fp8_precision.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace accel::fp8_precision_test {
namespace {

std::unique_ptr<Precision> delayed(DelayedScale& input, int& reduced) {
  DelayedScales scales({.amax_history_len = 2}, {"layer"}, at::kCPU);
  input = scales.of_layer(0)[0];
  return make_delayed_precision(at::kCPU, std::move(scales), [&](const at::Tensor& amax) {
    EXPECT_EQ(amax.numel(), 3);
    ++reduced;
  });
}

TEST(Fp8PrecisionTest, AnUpdateReducesMagnitudesAndSetsScales) {
  DelayedScale input;
  int reduced = 0;
  const auto precision = delayed(input, reduced);
  input.amax.fill_(2);
  precision->update();
  EXPECT_EQ(reduced, 1);
  EXPECT_EQ(input.scale.item<float>(), 224);
  EXPECT_EQ(precision->loss_scale(), 1);
  const AutocastScope casts = precision->autocast();
  EXPECT_EQ(at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(), at::kBFloat16);
}

TEST(Fp8PrecisionTest, TheStateIsRestored) {
  DelayedScale one, other;
  int reduced = 0;
  const auto first = delayed(one, reduced), second = delayed(other, reduced);
  one.amax.fill_(2);
  first->update();
  StateDict state;
  first->save(state);
  EXPECT_EQ(state.tensors.size(), 2u);
  second->load(state);
  EXPECT_EQ(other.scale.item<float>(), 224);
  testing::internal::CaptureStderr();
  second->load({});
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "the checkpoint lacks the fp8 scales of 1 of the layers, such as 'layer': they "
                "start at 1"),
            std::string::npos);
}

}  // namespace
}  // namespace accel::fp8_precision_test
