// Decoding token by token: the cache against the whole pass, and batches against single prompts.
#include "infer/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "kernels/few_rows.h"
#include "models/layers/decoding.h"
#include "tests/unit/build_component.h"

namespace accel::generation_test {
namespace {

constexpr int64_t kVocab = 40, kContext = 24;

const std::map<std::string, std::string> kDecoders = {
    {"gpt", "{type: gpt, num_layers: 2, num_heads: 2, hidden_size: 16, dropout: 0.5}"},
    {"gpt_untied",
     "{type: gpt, num_layers: 1, num_heads: 4, hidden_size: 16, tie_embeddings: false}"},
    {"gpt_neox", "{type: gpt_neox, num_layers: 2, num_heads: 2, hidden_size: 16}"},
    {"gpt_neox_serial",
     "{type: gpt_neox, num_layers: 2, num_heads: 2, hidden_size: 16, parallel_residual: false, "
     "tie_embeddings: true, rope: {partial_rotary_factor: 0.5, scaling: linear, factor: 2}}"},
    {"opt", "{type: opt, num_layers: 2, num_heads: 2, hidden_size: 16, dropout: 0.5}"},
    {"opt_350m",
     "{type: opt, num_layers: 2, num_heads: 2, hidden_size: 16, pre_norm: false, embedding_size: "
     "8}"},
    {"llama", "{type: llama, num_layers: 2, num_heads: 4, hidden_size: 16}"},
    {"llama_shared_heads",
     "{type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 2, hidden_size: 32}"},
    {"qwen3",
     "{type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 1, hidden_size: 32, qk_norm: true}"},
    {"mistral", "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, sliding_window: 5}"},
    {"smollm3",
     "{type: llama, num_layers: 3, num_heads: 2, hidden_size: 16, nope_layers: [1], "
     "sliding_window: 3, layer_types: [full_attention, sliding_attention]}"},
    {"phi3",
     "{type: llama, num_layers: 2, num_heads: 2, num_kv_heads: 1, hidden_size: 16, "
     "fused_projections: true, rope: {scaling: longrope, partial_rotary_factor: 0.5, "
     "short_factor: [1, 2], long_factor: [3, 5], factor: 4, original_max_position_embeddings: 9}}"},
    {"dynamic",
     "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, rope: {scaling: dynamic, "
     "factor: 4, original_max_position_embeddings: 6}}"},
    {"gemma2",
     "{type: llama, num_layers: 2, num_heads: 2, num_kv_heads: 1, hidden_size: 16, sliding_window: "
     "4, layer_types: [sliding_attention, full_attention], zero_centered_gamma: true, "
     "sandwich_norms: true, scale_embeddings: true, query_pre_attn_scalar: 20, "
     "attn_logit_softcapping: 0.5, final_logit_softcapping: 0.3}"},
    {"gemma3",
     "{type: llama, num_layers: 3, num_heads: 2, hidden_size: 16, sliding_window: 4, layer_types: "
     "[sliding_attention, sliding_attention, full_attention], zero_centered_gamma: true, "
     "sandwich_norms: true, scale_embeddings: true, qk_norm: true, local_rope_theta: 100}"},
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
  // By one, by several at once, and each behind the other.
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{24}, {1, 23}, {5, 1, 1, 7, 1, 9}, std::vector<int64_t>(24, 1)}) {
    KeyValueCache cache;
    int64_t first = 0;
    for (const int64_t part : parts) {
      const at::Tensor hidden =
          dynamic_cast<CachedDecoder&>(*model).hidden_next(tokens.narrow(1, first, part), cache);
      // The tokens up to here: the frequencies of some models depend on the length.
      const at::Tensor whole = language(*model).hidden(tokens.narrow(1, 0, first + part));
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
  request.config.max_new_tokens = 12;
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
  request.config.max_new_tokens = 3 * kContext;
  const std::vector<int64_t> prompt(2 * kContext, 1);
  const auto written = generate_tokens(language(*model), prompt, request);
  EXPECT_EQ(written.tokens.size(), 3 * kContext);
  // Only the newest half is left of what no longer fits: from there on both are one text.
  const std::vector<int64_t> end(prompt.end() - kContext, prompt.end());
  EXPECT_EQ(generate_tokens(language(*model), end, request).tokens, written.tokens);
}

/// Prompts that differ in length, of which the first and the last outgrow the context.
std::vector<std::vector<int64_t>> ragged_prompts() {
  return {std::vector<int64_t>(20, 4), {1}, {5, 6, 7, 8, 9, 1, 2}, {3, 3}, {30, 2, 9},
          std::vector<int64_t>(22, 8)};
}

TEST_P(DecodingTest, ContinuesABatchAsEachPromptAlone) {
  const auto model = decoder_of(GetParam());
  for (const bool samples : {false, true}) {
    GenerationRequest request;
    request.config.do_sample = samples;
    request.config.max_new_tokens = 12;
    request.config.eos_token_id = {11, 17};
    const auto prompts = ragged_prompts();
    std::vector<GeneratedTokens> alone;
    for (size_t i = 0; i < prompts.size(); ++i) {
      request.first_stream = i;
      alone.push_back(generate_tokens(language(*model), prompts[i], request));
    }
    request.first_stream = 0;
    for (const auto& [rows, chunk] : {std::pair(3, 5), {4, 12}, {6, 512}}) {
      request.batch_size = rows;
      request.prefill_chunk = chunk;
      size_t count = 0;
      generate_tokens(language(*model), prompts, request, [&](size_t i, GeneratedTokens made) {
        EXPECT_EQ(made.tokens, alone[i].tokens) << i << " of " << rows << ", " << chunk;
        EXPECT_EQ(made.end, alone[i].end) << i << " of " << rows << ", " << chunk;
        ++count;
      });
      EXPECT_EQ(count, prompts.size());
    }
  }
}

TEST_P(DecodingTest, ContinuesEqualPromptsEachByItsStream) {
  const auto model = decoder_of(GetParam());
  GenerationRequest request;
  request.config.do_sample = true;
  request.config.max_new_tokens = 5;
  request.config.eos_token_id = {11, 17};
  const std::vector<int64_t> first = {5, 6, 7, 8}, second = {3};
  const std::vector<std::vector<int64_t>> prompts = {first, first, first, second, second, first};
  std::vector<uint64_t> streams;
  std::vector<GeneratedTokens> alone;
  for (size_t i = 0; i < prompts.size(); ++i) {
    streams.push_back(90 - i);
    request.first_stream = streams.back();
    alone.push_back(generate_tokens(language(*model), prompts[i], request));
  }
  request.streams = streams;
  for (const int64_t rows : {2, 3, 6}) {
    request.batch_size = rows;
    generate_tokens(language(*model), prompts, request, [&](size_t i, GeneratedTokens made) {
      EXPECT_EQ(made.tokens, alone[i].tokens) << i;
      EXPECT_EQ(made.end_token, alone[i].end_token) << i;
      EXPECT_EQ(made.end_token >= 0, made.end == GenerationEnd::kToken) << i;
    });
  }
}

TEST_P(DecodingTest, FindsTheSameBeamsWithTheCacheAsWithout) {
  const at::NoGradGuard no_grad;
  const auto model = decoder_of(GetParam());
  GenerationRequest request;
  request.config.num_beams = 3;
  request.config.max_new_tokens = 6;
  request.config.early_stopping = EarlyStopping::kNever;
  request.config.length_penalty = 0;
  const auto found = generate_tokens(language(*model), std::vector<int64_t>{7, 3}, request);
  // Without end tokens the result is the likeliest beam at the largest length.
  model->module().eval();
  using Beam = std::pair<double, std::vector<int64_t>>;
  std::vector<Beam> beams = {{0, {7, 3}}};
  for (int step = 0; step < 6; ++step) {
    std::vector<Beam> longer;
    for (const auto& [score, tokens] : beams) {
      const auto size = static_cast<int64_t>(tokens.size());
      const at::Tensor chances = model->forward(at::tensor(tokens).view({1, size}))
                                     .select(1, size - 1)
                                     .flatten()
                                     .log_softmax(0);
      for (int64_t token = 0; token < kVocab; ++token) {
        longer.push_back({score + chances[token].item<double>(), tokens});
        longer.back().second.push_back(token);
      }
    }
    std::sort(longer.rbegin(), longer.rend());
    beams.assign(longer.begin(), longer.begin() + 3);
  }
  EXPECT_EQ(found.tokens, std::vector<int64_t>(beams[0].second.begin() + 2, beams[0].second.end()));
}

/// Largest error of a type relative to the largest hidden state, of ragged rows read in chunks.
TEST_P(DecodingTest, NarrowCachesAreCloseToThatOfFp32) {
  const at::NoGradGuard no_grad;
  const auto model = decoder_of(GetParam());
  model->module().eval();
  auto& decoder = dynamic_cast<CachedDecoder&>(*model);
  const at::Tensor tokens = some_tokens(12);
  const int64_t rows = decoder.supports_ragged_rows() ? 2 : 1;
  const auto states = [&](std::optional<CacheDtype> dtype) {
    KeyValueCache cache(rows, /*capacity=*/4, dtype);  // grows
    std::vector<at::Tensor> out;
    for (int64_t row = 0; row < rows; ++row) {
      cache.select(row);
      for (int64_t first = 0; first < 6 - 2 * row; first += 2) {
        out.push_back(decoder.hidden_next(tokens.narrow(1, first, 2), cache).flatten());
      }
    }
    cache.select(0);
    for (int64_t step = 6; step < 9; ++step) {
      const at::Tensor newest = tokens.narrow(1, step, 1).expand({rows, 1});
      out.push_back(decoder.hidden_next(newest, cache).flatten());
    }
    if (rows == 2) {
      cache.gather(std::vector<int64_t>{1, 0});
      cache.copy_row(0, 1);
      out.push_back(decoder.hidden_next(tokens.narrow(1, 9, 1).expand({2, 1}), cache).flatten());
    }
    return std::pair(at::cat(out), cache.bytes());
  };
  const auto [whole, bytes] = states(std::nullopt);
  EXPECT_TRUE(states(CacheDtype::kFp32).first.equal(whole));
  for (const auto& [dtype, limit, share] :
       {std::tuple(CacheDtype::kBf16, 0.03, 0.5), std::tuple(CacheDtype::kInt8, 0.03, 0.75)}) {
    const auto [found, fewer] = states(dtype);
    const double apart =
        found.sub(whole).abs().max().item<double>() / whole.abs().max().item<double>();
    EXPECT_GT(apart, 0);
    EXPECT_LT(apart, limit);
    EXPECT_LE(static_cast<double>(fewer), share * static_cast<double>(bytes));
  }
}

TEST_P(DecodingTest, FindsTheBeamsOfABatchAsThoseOfEachPrompt) {
  const auto model = decoder_of(GetParam());
  for (const bool samples : {false, true}) {
    GenerationRequest request;
    request.config.num_beams = 3;
    request.config.do_sample = samples;
    request.config.max_new_tokens = 8;
    request.config.eos_token_id = {11, 17};
    const auto prompts = ragged_prompts();
    std::vector<GeneratedTokens> alone;
    for (size_t i = 0; i < prompts.size(); ++i) {
      request.first_stream = i;
      alone.push_back(generate_tokens(language(*model), prompts[i], request));
    }
    request.first_stream = 0;
    request.batch_size = 2;
    request.prefill_chunk = 5;
    size_t count = 0;
    generate_tokens(language(*model), prompts, request, [&](size_t i, const GeneratedTokens& made) {
      EXPECT_EQ(made.tokens, alone[i].tokens) << i;
      EXPECT_EQ(made.end, alone[i].end) << i;
      ++count;
    });
    EXPECT_EQ(count, prompts.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecodingTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, yaml] : kDecoders) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

/// With two beams, one new token and no end tokens, 4 candidates are drawn without replacement from
/// the softmax; the text is the likeliest of the first two drawn.
TEST(GenerationTest, SampledBeamsAreDrawnWithoutReplacement) {
  const auto model = decoder_of("gpt_untied");
  const std::vector<int64_t> prompt = {7, 3};
  GenerationRequest request;
  request.config.num_beams = 2;
  request.config.do_sample = true;
  request.config.top_k = 4;
  request.config.max_new_tokens = 1;
  const at::NoGradGuard no_grad;
  model->module().eval();
  const at::Tensor logits = model->forward(at::tensor(prompt).view({1, 2})).select(1, 1).flatten();
  const auto [values, order] = logits.topk(4);
  const at::Tensor chances = values.softmax(0);
  const auto chance = [&](int64_t i) { return chances[i].item<double>(); };
  std::map<int64_t, double> wanted;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      if (i == j) continue;
      wanted[order[std::min(i, j)].item<int64_t>()] += chance(i) * chance(j) / (1 - chance(i));
    }
  }
  constexpr int kDraws = 4000;
  std::map<int64_t, double> found;
  for (int draw = 0; draw < kDraws; ++draw) {
    request.first_stream = static_cast<uint64_t>(draw);
    found[generate_tokens(language(*model), prompt, request).tokens.at(0)] += 1.0 / kDraws;
  }
  for (const auto& [token, share] : found) EXPECT_NEAR(share, wanted[token], 0.035) << token;
}

TEST(GenerationTest, IsAFunctionOfSeedAndStream) {
  const auto model = decoder_of("gpt");
  GenerationRequest request;
  request.config.do_sample = true;
  request.config.max_new_tokens = 20;
  const auto draw = [&](int64_t seed, uint64_t stream) {
    request.seed = seed;
    request.first_stream = stream;
    return generate_tokens(language(*model), std::vector<int64_t>{1}, request).tokens;
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(2, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
}

TEST(GenerationTest, LeavesTheModelAndItsGeneratorAsTheyWere) {
  const auto model = decoder_of("gpt");
  model->module().train();
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  generate_tokens(language(*model), std::vector<int64_t>{1}, {});
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
  EXPECT_TRUE(model->module().is_training());
  model->module().eval();
  generate_tokens(language(*model), std::vector<int64_t>{1}, {});
  EXPECT_FALSE(model->module().is_training());
}

TEST(GenerationTest, EndsAtAnEndToken) {
  const auto model = decoder_of("llama");
  GenerationRequest request;
  request.config.max_new_tokens = 30;
  const auto all = generate_tokens(language(*model), std::vector<int64_t>{2}, request);
  EXPECT_EQ(all.end, GenerationEnd::kLength);
  ASSERT_EQ(all.tokens.size(), 30u);
  request.config.eos_token_id = {all.tokens[5]};
  const auto cut = generate_tokens(language(*model), std::vector<int64_t>{2}, request);
  EXPECT_EQ(cut.end, GenerationEnd::kToken);
  const auto first = std::find(all.tokens.begin(), all.tokens.end(), all.tokens[5]);
  EXPECT_EQ(cut.tokens, std::vector<int64_t>(all.tokens.begin(), first));
}

/// Notes whether its passes are those of few rows.
class ScopeProbe final : public LanguageModel {
 public:
  at::Tensor forward(const at::Tensor& tokens) override { return hidden(tokens); }
  at::Tensor hidden(const at::Tensor& tokens) override {
    scopes.push_back(FewRowsScope::is_active());
    return at::zeros({tokens.size(0), tokens.size(1), 2});
  }
  at::Tensor head_weight() override { return at::zeros({5, 2}); }
  torch::nn::Module& module() override { return module_; }
  const char* default_task() const override { return ""; }

  std::vector<bool> scopes;

 private:
  torch::nn::Module module_;
};

TEST(GenerationTest, PassesUseTheProductsOfFewRows) {
  ScopeProbe model;
  GenerationRequest request;
  request.config.max_new_tokens = 3;
  generate_tokens(model, std::vector<int64_t>{1}, request);
  EXPECT_EQ(model.scopes, std::vector<bool>({true, true, true}));
  EXPECT_FALSE(FewRowsScope::is_active());
}

/// Notes the tokens of its passes.
class PassProbe final : public LanguageModel, public CachedDecoder {
 public:
  at::Tensor forward(const at::Tensor& tokens) override { return hidden(tokens); }
  at::Tensor hidden(const at::Tensor& tokens) override {
    passes.push_back(tokens.sizes().vec());
    return at::zeros({tokens.size(0), tokens.size(1), 2});
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache&) override {
    return hidden(tokens);
  }
  int64_t longest() const override { return 64; }
  bool supports_ragged_rows() const override { return true; }
  at::Tensor head_weight() override { return at::zeros({5, 2}); }
  torch::nn::Module& module() override { return module_; }
  const char* default_task() const override { return ""; }

  std::vector<std::vector<int64_t>> passes;

 private:
  torch::nn::Module module_;
};

TEST(GenerationTest, PromptsShareAPassWhosePaddingAtMostDoublesTheirTokens) {
  const auto passes = [](int64_t batch, int64_t chunk) {
    PassProbe model;
    GenerationRequest request;
    request.config.max_new_tokens = 1;
    request.batch_size = batch;
    request.prefill_chunk = chunk;
    const std::vector<std::vector<int64_t>> prompts = {
        {1, 2, 3, 4}, {2, 3, 4, 1}, {3, 3, 3}, {4}, std::vector<int64_t>(9, 2), {1, 2, 3, 4, 1, 2}};
    generate_tokens(model, prompts, request, [](size_t, const GeneratedTokens&) {});
    return model.passes;
  };
  using Passes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(passes(6, 512), Passes({{4, 4}, {2, 9}}));
  EXPECT_EQ(passes(6, 8), Passes({{2, 4}, {2, 3}, {1, 8}, {1, 1}, {1, 6}}));
  EXPECT_EQ(passes(1, 512), Passes({{1, 4}, {1, 4}, {1, 3}, {1, 1}, {1, 9}, {1, 6}}));
}

}  // namespace
}  // namespace accel::generation_test
