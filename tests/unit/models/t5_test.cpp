// T5: padding, causality, the cache of its decoder, and its options.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>

#include "core/api/encoder_decoder.h"
#include "core/api/targets.h"
#include "models/layers/decoding.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"

namespace accel::t5_test {
namespace {

constexpr auto kT5 =
    "{type: t5, num_layers: 2, num_decoder_layers: 3, hidden_size: 16, num_heads: 2, head_dim: 6, "
    "relative_attention_num_buckets: 8, relative_attention_max_distance: 12";

ModelContext texts() {
  ModelContext context;
  context.data.input = {64};
  context.data.input_type = DType::kI64;
  context.data.vocab = 23;
  context.data.target = {64, 0};
  context.data.padding = Padding();
  return context;
}

std::unique_ptr<Model> made(const std::string& more = "") {
  at::manual_seed(5);
  auto model = build<Model>(kT5 + more + "}", texts());
  model->module().eval();
  return model;
}

EncoderDecoder& network(Model& model) {
  return dynamic_cast<EncoderDecoder&>(model);
}

at::Tensor numbers(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

Batch batch_of(const at::Tensor& inputs, const at::Tensor& targets) {
  Batch batch;
  batch.inputs = inputs;
  batch.targets = targets;
  batch.ids.resize(static_cast<size_t>(inputs.size(0)));
  return batch;
}

/// Two sources of 20 tokens, more than the largest distance with a bucket of its own, and targets.
Batch some_batch() {
  return batch_of(at::arange(40).mul(7).remainder(23).view({2, 20}),
                  at::arange(36).mul(5).add(1).remainder(23).view({2, 18}));
}

TEST(T5Test, PaddingChangesNothing) {
  const at::NoGradGuard no_grad;
  const auto model = made();
  const Batch whole = some_batch();
  const at::Tensor wanted = model->forward_batch(whole);
  Batch padded = whole;
  padded.inputs = at::cat({whole.inputs, numbers({9, 4, 4, 9}).view({2, 2})}, 1);
  padded.lengths = numbers({20, 20});
  padded.targets =
      at::cat({whole.targets, at::full_like(whole.targets.narrow(1, 0, 3), kIgnoredTarget)}, 1);
  EXPECT_TRUE(model->forward_batch(padded).narrow(1, 0, 18).allclose(wanted, 1e-4, 1e-5));
}

TEST(T5Test, PackedPairsAreAsEachAlone) {
  const at::NoGradGuard no_grad;
  const auto model = made(", decoder_start_token_id: 4");
  const Batch both = some_batch();
  const at::Tensor wanted = model->forward_batch(both);
  const at::Tensor apart = numbers({kIgnoredTarget}).view({1, 1});
  Batch packed = batch_of(
      at::cat({both.inputs.view({1, 40}), numbers({9, 9}).view({1, 2})}, 1),
      at::cat({both.targets.narrow(0, 0, 1), apart, both.targets.narrow(0, 1, 1), apart, apart},
              1));
  packed.segments =
      at::cat({at::full({1, 20}, 1), at::full({1, 20}, 2), at::full({1, 2}, 0)}, 1).to(at::kLong);
  packed.lengths = numbers({40});
  const at::Tensor logits = model->forward_batch(packed)[0];
  EXPECT_TRUE(logits.narrow(0, 0, 18).allclose(wanted[0], 1e-4, 1e-5));
  EXPECT_TRUE(logits.narrow(0, 19, 18).allclose(wanted[1], 1e-4, 1e-5));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

TEST(T5Test, ATokenDependsOnTheSourceAndTheTargetBeforeIt) {
  const at::NoGradGuard no_grad;
  const auto model = made();
  Batch batch = some_batch();
  const at::Tensor before = model->forward_batch(batch);
  batch.targets = batch.targets.clone();
  batch.targets.select(1, 9).add_(1).remainder_(23);
  const at::Tensor after = model->forward_batch(batch);
  EXPECT_TRUE(after.narrow(1, 0, 10).equal(before.narrow(1, 0, 10)));
  EXPECT_FALSE(after.select(1, 10).allclose(before.select(1, 10)));
  batch.inputs = batch.inputs.add(1).remainder(23);
  EXPECT_FALSE(model->forward_batch(batch).select(1, 0).allclose(before.select(1, 0)));
}

TEST(T5Test, TheFirstTokenFollowsTheStartToken) {
  const at::NoGradGuard no_grad;
  const Batch batch = some_batch();
  const at::Tensor usual = made()->forward_batch(batch);
  const auto model = made(", decoder_start_token_id: 4");
  EXPECT_EQ(network(*model).start_token(), 4);
  EXPECT_FALSE(model->forward_batch(batch).select(1, 0).allclose(usual.select(1, 0)));
}

TEST(T5Test, OptionsThatChangeTheComputationDo) {
  const at::NoGradGuard no_grad;
  const Batch batch = some_batch();
  const at::Tensor wanted = made()->forward_batch(batch);
  for (const char* more :
       {", activation: gelu", ", is_gated_act: true", ", norm_eps: 0.5", ", tie_embeddings: false",
        ", scale_decoder_outputs: false", ", initializer_factor: 0.5"}) {
    EXPECT_FALSE(made(more)->forward_batch(batch).allclose(wanted)) << more;
  }
  std::string farther = std::string(kT5) + "}";
  farther.replace(farther.find("max_distance: 12"), 16, "max_distance: 30");
  at::manual_seed(5);
  EXPECT_FALSE(build<Model>(farther, texts())->forward_batch(batch).allclose(wanted));
  EXPECT_TRUE(made(", scale_decoder_outputs: true")->forward_batch(batch).equal(wanted));
  const at::Tensor unscaled = made(", scale_decoder_outputs: false")->forward_batch(batch);
  EXPECT_TRUE(unscaled.div(4).allclose(wanted, 1e-4, 1e-5));
}

TEST(T5Test, DecodingByTheCacheIsThatOfTheWholeTarget) {
  const at::NoGradGuard no_grad;
  const auto model = made();
  const Batch batch = some_batch();
  const at::Tensor wanted = network(*model).hidden(batch).select(0, 1);
  const auto decoder = network(*model).decoder_of(batch.inputs[1]);
  const at::Tensor tokens = at::cat({numbers({0}), batch.targets[1].narrow(0, 0, 17)}).unsqueeze(0);
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{18}, {1, 17}, {5, 1, 1, 7, 1, 3}, std::vector<int64_t>(18, 1)}) {
    KeyValueCache cache;
    int64_t first = 0;
    for (const int64_t part : parts) {
      const at::Tensor hidden =
          dynamic_cast<CachedDecoder&>(*decoder).hidden_next(tokens.narrow(1, first, part), cache);
      EXPECT_LT(hidden[0].sub(wanted.narrow(0, first, part)).abs().max().item<double>(), 1e-5);
      first += part;
    }
  }
  EXPECT_TRUE(decoder->hidden(tokens)[0].allclose(wanted, 1e-4, 1e-5));
}

TEST(T5Test, RowsOfACacheMayDifferInLength) {
  const at::NoGradGuard no_grad;
  const auto model = made();
  const auto decoder = network(*model).decoder_of(some_batch().inputs[0]);
  auto& cached = dynamic_cast<CachedDecoder&>(*decoder);
  KeyValueCache alone, both(2, 8);
  cached.hidden_next(numbers({{0, 3, 8}}).unsqueeze(0), alone);
  const at::Tensor wanted = cached.hidden_next(numbers({5}).unsqueeze(0), alone);
  cached.hidden_next(numbers({{0, 3, 8}}).unsqueeze(0), both);
  both.select(1);
  cached.hidden_next(numbers({0}).unsqueeze(0), both);
  both.select(0);
  const at::Tensor found = cached.hidden_next(numbers({5, 2}).view({2, 1}), both);
  EXPECT_TRUE(found[0].allclose(wanted[0], 1e-4, 1e-5));
}

TEST(T5Test, InitialWeightsHaveTransformersDeviations) {
  at::manual_seed(2);
  const auto model = build<Model>(
      "{type: t5, num_layers: 1, hidden_size: 64, num_heads: 4, head_dim: 32, is_gated_act: true, "
      "initializer_factor: 2, tie_embeddings: false}",
      texts());
  const std::map<std::string, double> wanted = {
      {"shared.weight", 2},
      {"lm_head.weight", 2},
      {"encoder.block.0.layer.0.SelfAttention.q.weight", 2 / std::sqrt(64.0 * 32)},
      {"decoder.block.0.layer.1.EncDecAttention.k.weight", 2 / std::sqrt(64.0)},
      {"decoder.block.0.layer.1.EncDecAttention.o.weight", 2 / std::sqrt(128.0)},
      {"encoder.block.0.layer.1.DenseReluDense.wi_1.weight", 2 / std::sqrt(64.0)},
      {"encoder.block.0.layer.1.DenseReluDense.wo.weight", 2 / std::sqrt(256.0)},
      {"decoder.relative_attention_bias.weight", 2 / std::sqrt(64.0)}};
  size_t found = 0;
  for (const Parameter& item : parameters_of(*model)) {
    const auto deviation = wanted.find(item.name);
    if (deviation == wanted.end()) continue;
    ++found;
    EXPECT_NEAR(item.local.std().item<double>() / deviation->second, 1, 0.2) << item.name;
  }
  EXPECT_EQ(found, wanted.size());
}

TEST(T5Test, WrongOptionsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{type: t5, hidden_size: 16, num_heads: 2, relative_attention_num_buckets: 9}",
       "'relative_attention_num_buckets' must be even, not 9"},
      {"{type: t5, hidden_size: 16, num_heads: 2, relative_attention_max_distance: 16}",
       "'relative_attention_max_distance' is 16, but 16 distances have their own bucket"},
      {"{type: t5, hidden_size: 16, num_heads: 2, is_gated_act: true, activation: gelu}",
       "'activation: gelu' has no gated form in transformers"},
      {"{type: t5, hidden_size: 16, num_heads: 2, decoder_start_token_id: 23}",
       "'decoder_start_token_id' is 23, and the model has 23 tokens"}};
  for (const auto& [options, message] : cases) {
    EXPECT_NE(complaint<Model>(options, texts()).find(message), std::string::npos)
        << complaint<Model>(options, texts());
  }
}

TEST(T5Test, ItNeedsTargetSequences) {
  const auto model = made();
  const Batch batch = batch_of(some_batch().inputs, numbers({1, 2}));
  try {
    model->forward_batch(batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the model 't5' needs a target sequence for each source, but the targets are [2]");
  }
}

}  // namespace
}  // namespace accel::t5_test
