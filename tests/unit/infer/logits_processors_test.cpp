// Logits processors against the scores of transformers, and sampling by the scores left.
#include "infer/logits_processors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace accel::logits_processors_test {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

nlohmann::json golden() {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(std::string(source ? source : ".") + "/tests/interop/golden/logits.json");
  return nlohmann::json::parse(file);
}

TEST(LogitsProcessorsTest, ScoreAsTransformers) {
  const nlohmann::json cases = golden();
  ASSERT_EQ(cases.size(), 114u);
  for (const auto& item : cases) {
    GenerationConfig config;
    read_generation_config(item["config"], "golden", config);
    const auto tokens = item["tokens"].get<std::vector<int64_t>>();
    auto scores = item["scores"].get<std::vector<float>>();
    process_logits(config, {tokens, item["prompt"], config.max_length.value_or(20)}, scores);
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto& found = item["found"][i];
      const float wanted = found.is_null() ? kNone : found.get<float>();
      if (std::isinf(wanted)) {
        EXPECT_EQ(scores[i], wanted) << item["config"] << " " << item["tokens"] << " " << i;
      } else {
        EXPECT_NEAR(scores[i], wanted, 1e-6 * (1 + std::fabs(wanted)))
            << item["config"] << " " << item["tokens"] << " " << i;
      }
    }
  }
}

/// How often each of four tokens is drawn, in thousandths.
std::vector<int> shares(const GenerationConfig& config) {
  std::vector<int> counts(4);
  SampleRng rng(5, 0, 0);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<float> scores = {std::log(0.2F), std::log(0.4F), std::log(0.1F), std::log(0.3F)};
    process_logits(config, {}, scores);
    ++counts[static_cast<size_t>(sample_token(scores, rng))];
  }
  for (int& count : counts) count = (count + 10) / 20;
  return counts;
}

struct SamplingCase {
  const char* name;
  GenerationConfig config;
  std::vector<int> wanted;  ///< thousandths
};

class SamplingTest : public testing::TestWithParam<SamplingCase> {};

TEST_P(SamplingTest, DrawsByTheProbabilitiesLeft) {
  GenerationConfig config = GetParam().config;
  config.do_sample = true;
  const std::vector<int> found = shares(config);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], GetParam().wanted[i], 12) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Options, SamplingTest,
    testing::Values(SamplingCase{"plain", {}, {200, 400, 100, 300}},
                    SamplingCase{"sharper", {.temperature = 0.5}, {133, 533, 33, 300}},
                    SamplingCase{"top_k", {.top_k = 2}, {0, 571, 0, 429}},
                    SamplingCase{"top_k_of_all", {.top_k = 9}, {200, 400, 100, 300}},
                    SamplingCase{"top_p", {.top_p = 0.65}, {0, 571, 0, 429}},
                    SamplingCase{"top_p_of_one", {.top_p = 0.01}, {0, 1000, 0, 0}},
                    SamplingCase{"min_p", {.min_p = 0.6}, {0, 571, 0, 429}},
                    SamplingCase{"top_p_after_top_k", {.top_k = 2, .top_p = 0.5}, {0, 1000, 0, 0}}),
    [](const auto& info) { return info.param.name; });

template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CheckLogitsTest, RefusesLogitsThatAreNotFinite) {
  const auto error_about = [](std::vector<float> logits) {
    return error_of([&] { check_logits(logits); });
  };
  EXPECT_EQ(error_about({0, NAN}), "the model's logits are not finite");
  EXPECT_EQ(error_about({0, INFINITY}), "the model's logits are not finite");
  EXPECT_EQ(error_about({-INFINITY, -INFINITY}), "the model gives every token probability 0");
  EXPECT_EQ(error_about({-INFINITY, 0}), "");
}

TEST(CheckLogitsTest, RefusesASuppressedVocabulary) {
  const auto error_about = [](std::vector<float> scores) {
    return error_of([&] { check_not_suppressed(scores); });
  };
  EXPECT_EQ(error_about({kNone, kNone}), "the generation config suppresses every token");
  EXPECT_EQ(error_about({kNone, 0}), "");
}

TEST(LogitsProcessorsTest, RefuseBiasesOfUnknownTokens) {
  GenerationConfig config;
  config.sequence_bias = {{{1, 4}, 2}};
  std::vector<float> scores(4);
  EXPECT_EQ(error_of([&] { process_logits(config, {}, scores); }),
            "a bias names token 4; the model has 4 tokens");
}

TEST(LikeliestTokenTest, IsTheFirstOfEqualOnes) {
  EXPECT_EQ(argmax_token(std::vector<float>{1, 3, 3}), 1);
  EXPECT_EQ(argmax_token(std::vector<float>{kNone, kNone}), 0);
}

TEST(LikeliestTokenTest, IsFoundAtEachPlace) {
  for (size_t place = 0; place < 40; ++place) {
    std::vector<float> scores(40, -3);
    scores[place] = -2;
    EXPECT_EQ(argmax_token(scores), static_cast<int64_t>(place));
    scores[place] = NAN;
    EXPECT_EQ(error_of([&] { check_logits(scores); }), "the model's logits are not finite");
  }
}

}  // namespace
}  // namespace accel::logits_processors_test
