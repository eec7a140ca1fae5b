// Decoding token by token: the cache against the whole pass, and what is drawn from the logits.
#include "infer/model_texts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "models/layers/decoding.h"
#include "tests/unit/build_component.h"

namespace accel::generation_test {
namespace {

constexpr int64_t kVocab = 40, kContext = 24;

const std::map<std::string, std::string> kDecoders = {
    {"gpt", "{type: gpt, num_layers: 2, num_heads: 2, hidden_size: 16, dropout: 0.5}"},
    {"gpt_untied",
     "{type: gpt, num_layers: 1, num_heads: 4, hidden_size: 16, tie_embeddings: false}"},
    {"llama", "{type: llama, num_layers: 2, num_heads: 4, hidden_size: 16}"},
    {"llama_shared_heads",
     "{type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 2, hidden_size: 32}"},
    {"qwen3",
     "{type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 1, hidden_size: 32, qk_norm: true}"},
};

std::unique_ptr<Model> decoder_of(const std::string& name) {
  at::set_num_threads(1);  // so small that more would only wait for one another
  at::manual_seed(3);
  ModelContext context;
  context.data.input = {kContext};
  context.data.input_type = DType::kI64;
  context.data.vocab = kVocab;
  return build<Model>(kDecoders.at(name), context);
}

LanguageModel& language(Model& model) {
  return dynamic_cast<LanguageModel&>(model);
}

at::Tensor some_tokens(int64_t count) {
  at::manual_seed(11);
  return at::randint(kVocab, {1, count}, at::TensorOptions().dtype(at::kLong));
}

class DecodingTest : public testing::TestWithParam<std::string> {};

TEST_P(DecodingTest, GivesTheSameWithTheCacheAsWithout) {
  const at::NoGradGuard no_grad;
  const auto model = decoder_of(GetParam());
  model->module().eval();
  const at::Tensor tokens = some_tokens(kContext);
  const at::Tensor whole = language(*model).hidden(tokens);
  // By one, by several at once, and each behind the other.
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{24}, {1, 23}, {5, 1, 1, 7, 1, 9}, std::vector<int64_t>(24, 1)}) {
    KeyValueCache cache;
    int64_t first = 0;
    for (const int64_t part : parts) {
      const at::Tensor hidden =
          dynamic_cast<CachedDecoder&>(*model).hidden_next(tokens.narrow(1, first, part), cache);
      const at::Tensor gap = hidden.sub(whole.narrow(1, first, part)).abs().max();
      EXPECT_LT(gap.item<double>(), 1e-5) << "from " << first << " on " << part;
      first += part;
      EXPECT_EQ(cache.length(), first);
    }
  }
}

TEST_P(DecodingTest, WritesWhatTheWholePassFindsLikeliest) {
  const auto model = decoder_of(GetParam());
  GenerationRequest request;
  request.sampling.temperature = 0;
  request.sampling.max_new_tokens = 12;
  std::vector<int64_t> wanted = {7, 3};
  const auto written = generate_tokens(language(*model), wanted, request);
  const at::NoGradGuard no_grad;
  model->module().eval();
  for (int i = 0; i < 12; ++i) {
    const auto size = static_cast<int64_t>(wanted.size());
    const at::Tensor logits =
        model->forward(at::tensor(wanted).view({1, size})).select(1, size - 1).flatten();
    wanted.push_back(logits.argmax().item<int64_t>());
  }
  EXPECT_EQ(written.tokens, std::vector<int64_t>(wanted.begin() + 2, wanted.end()));
}

TEST_P(DecodingTest, GoesOnBeyondWhatItCanSee) {
  const auto model = decoder_of(GetParam());
  GenerationRequest request;
  request.sampling.max_new_tokens = 3 * kContext;
  const std::vector<int64_t> prompt(2 * kContext, 1);
  const auto written = generate_tokens(language(*model), prompt, request);
  EXPECT_EQ(written.tokens.size(), 3 * kContext);
  // Only the newest half is left of what no longer fits: from there on both are one text.
  const std::vector<int64_t> end(prompt.end() - kContext, prompt.end());
  EXPECT_EQ(generate_tokens(language(*model), end, request).tokens, written.tokens);
}

INSTANTIATE_TEST_SUITE_P(Models, DecodingTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, yaml] : kDecoders) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(GenerationTest, IsAFunctionOfSeedAndStream) {
  const auto model = decoder_of("gpt");
  GenerationRequest request;
  request.sampling.max_new_tokens = 20;
  const auto draw = [&](int64_t seed, uint64_t stream) {
    request.sampling.seed = seed;
    request.stream = stream;
    return generate_tokens(language(*model), {1}, request).tokens;
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(2, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
}

TEST(GenerationTest, LeavesTheModelAndItsGeneratorAsTheyWere) {
  const auto model = decoder_of("gpt");
  model->module().train();
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  generate_tokens(language(*model), {1}, {});
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
  EXPECT_TRUE(model->module().is_training());
  model->module().eval();
  generate_tokens(language(*model), {1}, {});
  EXPECT_FALSE(model->module().is_training());
}

TEST(GenerationTest, EndsAtAnEndToken) {
  const auto model = decoder_of("llama");
  GenerationRequest request;
  request.sampling.max_new_tokens = 30;
  const auto all = generate_tokens(language(*model), {2}, request);
  EXPECT_FALSE(all.ended);
  ASSERT_EQ(all.tokens.size(), 30u);
  request.ends = {all.tokens[5]};
  const auto cut = generate_tokens(language(*model), {2}, request);
  EXPECT_TRUE(cut.ended);
  const auto first = std::find(all.tokens.begin(), all.tokens.end(), all.tokens[5]);
  EXPECT_EQ(cut.tokens, std::vector<int64_t>(all.tokens.begin(), first));
}

/// How often each of four tokens is drawn, in thousandths.
std::vector<int> shares(const SamplingOptions& options) {
  const std::vector<float> logits = {std::log(0.2F), std::log(0.4F), std::log(0.1F),
                                     std::log(0.3F)};
  std::vector<int> counts(4);
  SampleRng rng(5, 0, 0);
  for (int i = 0; i < 20'000; ++i)
    ++counts[static_cast<size_t>(choose_token(logits, options, rng))];
  for (int& count : counts) count = (count + 10) / 20;
  return counts;
}

struct SamplingCase {
  const char* name;
  SamplingOptions options;
  std::vector<int> wanted;  ///< thousandths
};

class SamplingTest : public testing::TestWithParam<SamplingCase> {};

TEST_P(SamplingTest, DrawsByTheChancesLeft) {
  const std::vector<int> found = shares(GetParam().options);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], GetParam().wanted[i], 12) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Options, SamplingTest,
    testing::Values(SamplingCase{"plain", {}, {200, 400, 100, 300}},
                    SamplingCase{"greedy", {.temperature = 0}, {0, 1000, 0, 0}},
                    SamplingCase{"sharper", {.temperature = 0.5}, {133, 533, 33, 300}},
                    SamplingCase{"top_k", {.top_k = 2}, {0, 571, 0, 429}},
                    SamplingCase{"top_k_of_all", {.top_k = 9}, {200, 400, 100, 300}},
                    SamplingCase{"top_p", {.top_p = 0.65}, {0, 571, 0, 429}},
                    SamplingCase{"top_p_of_one", {.top_p = 0.01}, {0, 1000, 0, 0}},
                    SamplingCase{
                        "top_p_of_what_top_k_left", {.top_k = 2, .top_p = 0.5}, {0, 1000, 0, 0}}),
    [](const auto& info) { return info.param.name; });

TEST(ChooseTokenTest, RefusesLogitsThatAreNoNumbers) {
  SampleRng rng(1, 0, 0);
  const auto complaint_about = [&](std::vector<float> logits) -> std::string {
    try {
      choose_token(logits, {}, rng);
    } catch (const DivergedError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint_about({0, NAN}), "the model's logits are not finite");
  EXPECT_EQ(complaint_about({0, INFINITY}), "the model's logits are not finite");
  EXPECT_EQ(complaint_about({-INFINITY, -INFINITY}), "the model gives every token probability 0");
  EXPECT_EQ(complaint_about({-INFINITY, 0}), "");
}

}  // namespace
}  // namespace accel::generation_test
