// Packed texts know nothing of one another.
#include <gtest/gtest.h>

#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include "core/api/model.h"
#include "core/api/packed_sequences.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/self_attention.h"
#include "tests/unit/build_component.h"

namespace accel::block_diagonal_mask_test {
namespace {

TEST(TextsApartTest, PositionsBeginAndTheMaskEndsWithEachText) {
  const BlockDiagonalMask apart =
      block_diagonal_mask(at::tensor({1, 1, 2, 2, 0}, at::kLong).unsqueeze(0));
  EXPECT_TRUE(apart.positions.equal(at::tensor({0, 1, 0, 1, 0}, at::kLong).unsqueeze(0)));
  const at::Tensor seen = at::tensor({1, 0, 0, 0, 0,  //
                                      1, 1, 0, 0, 0,  //
                                      0, 0, 1, 0, 0,  //
                                      0, 0, 1, 1, 0,  //
                                      0, 0, 0, 0, 1},
                                     at::kLong)
                              .view({1, 1, 5, 5});
  EXPECT_TRUE(apart.mask.to(at::kLong).equal(seen));
}

class PackedModelTest : public testing::TestWithParam<const char*> {};

TEST_P(PackedModelTest, EachTextIsAsIfItWereAlone) {
  ModelContext context;
  context.data = {.input = {10}, .input_type = DType::kI64, .vocab = 20};
  const auto model = build<Model>(GetParam(), context);
  auto& language = dynamic_cast<LanguageModel&>(*model);
  const at::Tensor a = at::randint(20, {2, 4}, at::kLong), b = at::randint(20, {2, 3}, at::kLong);
  const at::Tensor row = at::cat({a, b, a.slice(1, 0, 3)}, 1);
  const at::Tensor segments = at::tensor({1, 1, 1, 1, 2, 2, 2, 3, 3, 3}, at::kLong).expand({2, 10});
  for (const bool recomputed : {false, true}) {
    EXPECT_EQ(recomputed ? checkpoint_blocks(*model) : 2, 2);
    const at::Tensor packed = dynamic_cast<PackedSequences&>(*model).forward_packed(row, segments);
    EXPECT_TRUE(packed.slice(1, 0, 4).allclose(language.hidden(a), 1e-5, 1e-6));
    EXPECT_TRUE(packed.slice(1, 4, 7).allclose(language.hidden(b), 1e-5, 1e-6));
    EXPECT_TRUE(packed.slice(1, 7).allclose(language.hidden(a).slice(1, 0, 3), 1e-5, 1e-6));
    // A text that comes before changes the result without segments.
    EXPECT_FALSE(language.hidden(row).slice(1, 4, 7).allclose(language.hidden(b), 1e-3, 1e-4));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PackedModelTest,
    testing::Values(
        "{type: gpt, num_layers: 2, num_heads: 2, hidden_size: 16}",
        "{type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 2, hidden_size: 16}",
        "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, rope: {scaling: linear, "
        "factor: 2.0}, qk_norm: true}",
        "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, sliding_window: 2}",
        "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, rope: {scaling: longrope, "
        "short_factor: [1, 2, 3, 4], long_factor: [3, 5, 7, 9], factor: 4, "
        "original_max_position_embeddings: 4}}",
        "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, sliding_window: 3, "
        "layer_types: [sliding_attention, full_attention], local_rope_theta: 100, "
        "zero_centered_gamma: true, sandwich_norms: true, attn_logit_softcapping: 0.5}"));

}  // namespace
}  // namespace accel::block_diagonal_mask_test
