// Targets that an encoder-decoder generates: greedy decoding, beams, and the model's mode.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "infer/generate.h"
#include "tests/unit/build_component.h"

namespace accel::targets_test {
namespace {

std::unique_ptr<Model> some_t5() {
  at::set_num_threads(1);
  at::manual_seed(3);
  ModelContext context;
  context.data.input = {16};
  context.data.input_type = DType::kI64;
  context.data.vocab = 31;
  auto model = build<Model>(
      "{type: t5, num_layers: 1, num_decoder_layers: 2, hidden_size: 16, num_heads: 2, dropout: "
      "0.4, tie_embeddings: false}",
      context);
  return model;
}

EncoderDecoder& network(Model& model) {
  return dynamic_cast<EncoderDecoder&>(model);
}

const std::vector<std::vector<int64_t>> kSources = {{4, 9, 2, 7}, {5}, {8, 8, 1}};

std::map<size_t, GeneratedTokens> made(Model& model, const GenerationRequest& request) {
  std::map<size_t, GeneratedTokens> out;
  generate_targets(network(model), kSources, request,
                   [&](size_t i, GeneratedTokens one) { out[i] = std::move(one); });
  return out;
}

/// The log-probability of a target behind the start token, without an end.
double score_of(EncoderDecoder& model, const std::vector<int64_t>& source,
                const std::vector<int64_t>& target) {
  const at::NoGradGuard no_grad;
  model.module().eval();
  Batch batch;
  batch.inputs = at::tensor(source).unsqueeze(0);
  batch.targets = at::tensor(target).unsqueeze(0);
  batch.ids = {0};
  return model.forward_batch(batch)
      .log_softmax(-1)
      .gather(2, batch.targets.unsqueeze(2))
      .sum()
      .item<double>();
}

TEST(TargetsTest, EachTokenIsTheLikeliestBehindThoseBeforeIt) {
  const auto model = some_t5();
  GenerationRequest request;
  request.config.max_new_tokens = 9;
  std::vector<std::pair<size_t, int64_t>> told;
  request.on_token = [&](size_t i, int64_t token) { told.emplace_back(i, token); };
  const auto written = made(*model, request);
  const at::NoGradGuard no_grad;
  model->module().eval();
  std::vector<std::pair<size_t, int64_t>> all;
  for (size_t i = 0; i < kSources.size(); ++i) {
    Batch batch;
    batch.inputs = at::tensor(kSources[i]).unsqueeze(0);
    batch.targets = at::tensor(written.at(i).tokens).unsqueeze(0);
    const at::Tensor likeliest = model->forward_batch(batch).argmax(-1);
    EXPECT_TRUE(likeliest.equal(batch.targets)) << i;
    EXPECT_EQ(written.at(i).tokens.size(), 9U);
    for (const int64_t token : written.at(i).tokens) all.emplace_back(i, token);
  }
  std::stable_sort(told.begin(), told.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  EXPECT_EQ(told, all);
}

TEST(TargetsTest, SourcesTogetherGiveTheTargetsOfEachAlone) {
  const auto model = some_t5();
  for (const bool samples : {false, true}) {
    GenerationRequest request;
    request.config.max_new_tokens = 12;
    request.config.do_sample = samples;
    request.config.top_k = 0;
    // The first token of another source ends a target early, and its row gets the next source.
    request.config.eos_token_id = {made(*model, request).at(1).tokens.at(2)};
    request.batch_size = 1;
    const auto alone = made(*model, request);
    for (const int64_t rows : {2, 3, 8}) {
      request.batch_size = rows;
      const auto together = made(*model, request);
      ASSERT_EQ(together.size(), kSources.size());
      for (size_t i = 0; i < kSources.size(); ++i) {
        EXPECT_EQ(together.at(i).tokens, alone.at(i).tokens) << rows << " " << i;
        EXPECT_EQ(together.at(i).end, alone.at(i).end);
      }
    }
  }
}

TEST(TargetsTest, BeamsOfSourcesTogetherAreThoseOfEachAlone) {
  const auto model = some_t5();
  for (const int64_t beams : {2, 5}) {
    GenerationRequest request;
    request.config.max_new_tokens = 12;
    request.config.eos_token_id = {made(*model, request).at(1).tokens.at(2)};
    request.config.num_beams = beams;
    request.batch_size = 1;
    const auto alone = made(*model, request);
    for (const int64_t searches : {2, 3, 8}) {
      request.batch_size = searches;
      const auto together = made(*model, request);
      ASSERT_EQ(together.size(), kSources.size());
      for (size_t i = 0; i < kSources.size(); ++i) {
        EXPECT_EQ(together.at(i).tokens, alone.at(i).tokens) << searches << " " << i;
        EXPECT_EQ(together.at(i).end, alone.at(i).end);
      }
    }
  }
}

TEST(TargetsTest, BeamsFindLikelierTargets) {
  const auto model = some_t5();
  GenerationRequest request;
  request.config.max_new_tokens = 6;
  const auto greedy = made(*model, request);
  request.config.num_beams = 5;
  const auto beams = made(*model, request);
  for (size_t i = 0; i < kSources.size(); ++i) {
    EXPECT_GE(score_of(network(*model), kSources[i], beams.at(i).tokens) + 1e-4,
              score_of(network(*model), kSources[i], greedy.at(i).tokens));
  }
}

TEST(TargetsTest, LengthsCountTheStartToken) {
  const auto model = some_t5();
  GenerationRequest request;
  request.config.max_length = 5;
  EXPECT_EQ(made(*model, request).at(0).tokens.size(), 4U);
}

TEST(TargetsTest, BeginWithTheStartTokenOfTheConfig) {
  const auto model = some_t5();
  const auto first_of = [&](const GenerationRequest& request) {
    return made(*model, request).at(0).tokens;
  };
  GenerationRequest usual;
  usual.config.max_new_tokens = 5;
  std::set<std::vector<int64_t>> different;
  for (int64_t start = 0; start < 31; ++start) {
    GenerationRequest request = usual;
    request.config.decoder_start_token_id = start;
    request.config.bos_token_id = 30 - start;  // has no effect
    different.insert(first_of(request));
    GenerationRequest by_bos = usual;
    by_bos.config.bos_token_id = start;
    EXPECT_EQ(first_of(by_bos), first_of(request)) << start;
  }
  EXPECT_GT(different.size(), 2U);
  GenerationRequest own = usual;
  own.config.decoder_start_token_id = network(*model).start_token();
  EXPECT_EQ(first_of(own), first_of(usual));
}

TEST(TargetsTest, StartTokensOutsideOfTheVocabularyAreErrors) {
  const auto model = some_t5();
  for (const int64_t start : {31, -1}) {
    GenerationRequest request;
    request.config.decoder_start_token_id = start;
    try {
      made(*model, request);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "'decoder_start_token_id' is " + std::to_string(start) +
                                  ", and the model has 31 tokens");
      EXPECT_EQ(error.hint(), "set it to the id of a token of the model, or remove it");
    }
  }
}

TEST(TargetsTest, TheModelKeepsItsMode) {
  const auto model = some_t5();
  model->module().train();
  GenerationRequest request;
  request.config.max_new_tokens = 5;
  const auto first = made(*model, request);
  EXPECT_TRUE(model->module().is_training());
  EXPECT_EQ(made(*model, request).at(2).tokens, first.at(2).tokens);
}

}  // namespace
}  // namespace accel::targets_test
