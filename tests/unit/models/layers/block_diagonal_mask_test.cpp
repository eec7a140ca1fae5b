// Packed texts know nothing of one another, in decoders and encoders.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/packed_sequences.h"
#include "core/api/targets.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/input_spec.h"
#include "models/layers/packed_texts.h"
#include "models/layers/self_attention.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/test_bytes.h"

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

constexpr int64_t kVocab = 20, kRow = 12, kLabels = 5;

DataShape shape_of(int64_t segments, int64_t classes = 0) {
  return {.input = {kRow},
          .input_type = DType::kI64,
          .target = {kRow},
          .classes = classes,
          .vocab = kVocab,
          .padding = Padding{},
          .segments = segments};
}

/// Rows of these texts, and what they have in packed rows.
struct Texts {
  Batch apart, packed;
};

/// Texts of 5, 3, 4, 7 and 1 tokens, which take two rows.
Texts texts(int64_t choices) {
  const std::vector<int64_t> lengths = {5, 3, 4, 7, 1};
  const auto count = static_cast<int64_t>(lengths.size());
  Batch apart, packed;
  apart.inputs = at::full({count, 8}, 1, at::kLong);
  apart.targets = at::full({count, 8}, kIgnoredTarget, at::kLong);
  apart.lengths = at::tensor(lengths, at::kLong);
  apart.ids.assign(lengths.size(), 0);
  packed.inputs = at::full({2, kRow}, 1, at::kLong);
  packed.targets = at::full({2, kRow}, kIgnoredTarget, at::kLong);
  packed.segments = at::zeros_like(packed.inputs);
  packed.lengths = at::tensor({12, 8}, at::kLong);
  packed.ids = {0, 1};
  for (int64_t i = 0, row = 0, first = 0, number = 0; i < count; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    if (first + length > kRow) {
      ++row;
      first = number = 0;
    }
    const at::Tensor tokens = at::randint(0, kVocab, {length}, at::kLong);
    const at::Tensor wanted = at::randint(0, choices, {length}, at::kLong);
    apart.inputs[i].narrow(0, 0, length).copy_(tokens);
    apart.targets[i].narrow(0, 0, length).copy_(wanted);
    packed.inputs[row].narrow(0, first, length).copy_(tokens);
    packed.targets[row].narrow(0, first, length).copy_(wanted);
    packed.segments[row].narrow(0, first, length).fill_(++number);
    first += length;
  }
  return {apart, packed};
}

at::Tensor loss_of(Model& model, const Batch& batch) {
  const auto ignored =
      torch::nn::functional::CrossEntropyFuncOptions().ignore_index(kIgnoredTarget);
  return torch::nn::functional::cross_entropy(model.forward_batch(batch).flatten(0, 1),
                                              batch.targets.flatten(), ignored);
}

struct Pass {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
};

Pass pass_of(Model& model, const Batch& batch) {
  model.module().zero_grad();
  Pass pass{loss_of(model, batch), {}};
  pass.loss.backward();
  for (const at::Tensor& item : model.module().parameters()) {
    const at::Tensor& gradient = item.grad();
    pass.gradients.push_back(gradient.defined() ? gradient.clone() : at::zeros_like(item));
  }
  return pass;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

/// Initial weights are so small that attention hardly matters.
void enlarge(Model& model) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& item : model.module().parameters()) {
    if (item.dim() == 2) item.mul_(5);
  }
}

class PackedTextsTest : public testing::TestWithParam<const char*> {};

TEST_P(PackedTextsTest, LossAndGradientsAreThoseOfTheTextsAlone) {
  for (const int64_t labels : {int64_t{0}, kLabels}) {
    const auto model = build<Model>(GetParam(), ModelContext{shape_of(kRow + 1, labels)});
    ASSERT_NE(dynamic_cast<PacksTexts*>(model.get()), nullptr);
    model->module().eval();
    enlarge(*model);
    const Texts some = texts(labels > 0 ? labels : kVocab);
    const Pass apart = pass_of(*model, some.apart);
    for (const bool recomputed : {false, true}) {
      EXPECT_EQ(recomputed ? checkpoint_blocks(*model) : 2, 2);
      const Pass packed = pass_of(*model, some.packed);
      EXPECT_LT(distance(packed.loss, apart.loss), 1e-6);
      ASSERT_EQ(packed.gradients.size(), apart.gradients.size());
      for (size_t i = 0; i < packed.gradients.size(); ++i) {
        const double size = apart.gradients[i].abs().max().item<double>();
        EXPECT_LT(distance(packed.gradients[i], apart.gradients[i]), 1e-6 * std::max(1.0, size))
            << i;
      }
    }
    Batch merged = some.packed;
    merged.segments = at::Tensor();
    EXPECT_GT(distance(loss_of(*model, merged), apart.loss), 1e-5) << "texts see one another";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PackedTextsTest,
    testing::Values(
        "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 16}",
        "{type: bert, num_layers: 2, num_heads: 2, hidden_size: 16, segments: 1, lora: {rank: 2}}",
        "{type: roberta, num_layers: 2, num_heads: 2, hidden_size: 16, pad: 3}",
        "{type: distilbert, num_layers: 2, num_heads: 2, hidden_size: 16}",
        "{type: electra, num_layers: 2, num_heads: 2, hidden_size: 16, embedding_size: 8}",
        "{type: deberta, num_layers: 2, num_heads: 2, hidden_size: 16, relative: {buckets: 4}}",
        "{type: deberta, num_layers: 2, num_heads: 2, hidden_size: 16, segments: 2, "
        "absolute_positions: true, relative: {buckets: 0, max_distance: 3, share_projections: "
        "false}}",
        "{type: modernbert, num_layers: 2, num_heads: 2, hidden_size: 16, local_attention: 4}",
        "{type: modernbert, num_layers: 2, num_heads: 2, hidden_size: 16, local_attention: 2, "
        "layer_types: [sliding_attention, full_attention], rope: {scaling: yarn, factor: 2.0, "
        "original_max_position_embeddings: 4}}"));

TEST(PackedTextsTest, TheMaskHasBothDirectionsAndPaddingSeesItself) {
  const BlockDiagonalMask texts =
      whole_text_mask(at::tensor({1, 1, 2, 2, 0}, at::kLong).unsqueeze(0));
  EXPECT_TRUE(texts.positions.equal(at::tensor({0, 1, 0, 1, 0}, at::kLong).unsqueeze(0)));
  const at::Tensor seen = at::tensor({1, 1, 0, 0, 0,  //
                                      1, 1, 0, 0, 0,  //
                                      0, 0, 1, 1, 0,  //
                                      0, 0, 1, 1, 0,  //
                                      0, 0, 0, 0, 1},
                                     at::kLong)
                              .view({1, 1, 5, 5});
  EXPECT_TRUE(texts.mask.to(at::kLong).equal(seen));
}

struct RefusedSegments {
  const char* type;
  const char* pairs;   ///< of a model for packed texts
  const char* packed;  ///< of a model for others
};

TEST(PackedTextsTest, OtherSegmentsAreRefused) {
  constexpr std::array kCases = {
      RefusedSegments{
          "bert", "the model 'bert' is built for packed texts, but a sample of the data is a pair",
          "the model 'bert' is not built for packed texts, but the data is packed"},
      RefusedSegments{
          "modernbert",
          "the model 'modernbert' is built for packed texts, but a sample of the data is a pair",
          "the model 'modernbert' is not built for packed texts, but the data is packed"}};
  for (const RefusedSegments& item : kCases) {
    const std::string options = std::string("{type: ") + item.type +
                                ", num_layers: 1, num_heads: 1, hidden_size: 8, max_seq_len: 64}";
    const auto packed = build<Model>(options, ModelContext{shape_of(kRow + 1)});
    const auto single = build<Model>(options, ModelContext{shape_of(0)});
    const auto said = [](const Model& model, int64_t segments) {
      return complaint([&] { validate_input(model, shape_of(segments)); });
    };
    EXPECT_EQ(said(*packed, 0), "");
    EXPECT_EQ(said(*packed, 65), "");
    EXPECT_EQ(said(*single, 2), "");
    EXPECT_EQ(said(*packed, 2), std::string(item.pairs) + "\nuse data of single texts");
    EXPECT_EQ(said(*single, 13), std::string(item.packed) + "\nleave 'pack' out of the data");
  }
}

TEST(PackedTextsTest, RotationsThatDependOnTheLengthAreRefused) {
  EXPECT_EQ(
      complaint<Model>("{type: modernbert, num_layers: 1, num_heads: 1, hidden_size: 8, rope: "
                       "{scaling: dynamic, factor: 2.0, original_max_position_embeddings: 8}}",
                       ModelContext{shape_of(kRow + 1)}),
      "the model 'modernbert' does not support packed texts with rotary positions that depend "
      "on the length of a text");
}

}  // namespace
}  // namespace accel::block_diagonal_mask_test
