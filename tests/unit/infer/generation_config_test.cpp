// Generation configs: keys that act, keys that are refused, and lengths.
#include "infer/generation_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace accel::generation_config_test {
namespace {

GenerationConfig config_of(const char* json) {
  GenerationConfig config;
  read_generation_config(nlohmann::json::parse(json, nullptr, false), "g.json", config);
  return config;
}

/// The error and its hint.
std::string error_of(const char* json) {
  try {
    config_of(json).check();
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

TEST(GenerationConfigTest, ReadsTheFileOfAnInstructModel) {
  const GenerationConfig config = config_of(
      R"({"bos_token_id": 1, "do_sample": true, "eos_token_id": [5, 7], "pad_token_id": 1,
          "repetition_penalty": 1.05, "temperature": 0.7, "top_k": 20, "top_p": 0.8,
          "max_new_tokens": 2048, "transformers_version": "4.37.0", "use_cache": true,
          "guidance_scale": null, "num_return_sequences": 1})");
  EXPECT_TRUE(config.do_sample);
  EXPECT_EQ(config.eos_token_id, (std::set<int64_t>{5, 7}));
  EXPECT_EQ(config.repetition_penalty, 1.05);
  EXPECT_EQ(config.temperature, 0.7);
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.8);
  EXPECT_EQ(config.max_new_tokens, 2048);
  EXPECT_EQ(sampling_summary(config),
            "do_sample: true, temperature: 0.7, top_k: 20, top_p: 0.8, repetition_penalty: 1.05");
}

TEST(GenerationConfigTest, HasTransformersDefaults) {
  const GenerationConfig config = config_of(R"({"do_sample": true, "stop_strings": "x"})");
  EXPECT_EQ(config.top_k, 50);
  EXPECT_EQ(config.temperature, 1);
  EXPECT_EQ(config.stop_strings, std::vector<std::string>{"x"});
  EXPECT_EQ(sampling_summary(config_of("{}")), "");
}

TEST(GenerationConfigTest, CountsNewTokens) {
  EXPECT_EQ(config_of("{}").new_tokens(7, 100), 100);
  EXPECT_EQ(config_of(R"({"max_length": 20})").new_tokens(7, 100), 13);
  for (const int64_t prompt : {20, 27}) {
    try {
      config_of(R"({"max_length": 20})").new_tokens(prompt, 100);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                "the prompt has " + std::to_string(prompt) + " tokens, and 'max_length' is 20");
      EXPECT_EQ(error.hint(), "raise 'max_length', or set 'max_new_tokens'");
    }
  }
  EXPECT_EQ(config_of(R"({"max_length": 20, "max_new_tokens": 5})").new_tokens(27, 100), 5);
}

TEST(GenerationConfigTest, FindsItsKeysInTheConfigOfAModel) {
  const auto model = nlohmann::json::parse(R"({
    "model_type": "t5", "d_model": 64, "use_cache": true, "num_beams": 4, "min_length": null,
    "eos_token_id": 1, "decoder_start_token_id": 0, "num_return_sequences": 2,
    "task_specific_params": {"summarization": {"num_beams": 8}}})");
  EXPECT_EQ(generation_keys_in(model).dump(),
            R"({"decoder_start_token_id":0,"eos_token_id":1,"num_beams":4,)"
            R"("num_return_sequences":2})");
  EXPECT_EQ(generation_keys_in(nlohmann::json::array()).dump(), "{}");
}

TEST(GenerationConfigTest, StartTokensAreThoseOfEncoderDecoders) {
  const GenerationConfig config = config_of(R"({"decoder_start_token_id": 3, "bos_token_id": 2})");
  EXPECT_EQ(config.decoder_start_token_id, 3);
  EXPECT_EQ(config.bos_token_id, 2);
  EXPECT_FALSE(config_of(R"({"bos_token_id": [2]})").bos_token_id);
}

TEST(GenerationConfigTest, RefusesWhatCannotAct) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "g.json: not a JSON object | "},
      {"{", "g.json: not a JSON object | "},
      {R"({"tempersture": 1})",
       "g.json: 'tempersture' is no key of a generation config | remove it"},
      {R"({"guidance_scale": 1.5})",
       "g.json: 'guidance_scale' is 1.5, which is not supported | set it to 1, or remove it"},
      {R"({"num_return_sequences": 3})",
       "g.json: 'num_return_sequences' is 3, which is not supported | set it to 1, or remove it"},
      {R"({"do_sample": 1})", "g.json: 'do_sample' is 1 | give true or false"},
      {R"({"top_k": 1.5})", "g.json: 'top_k' is 1.5 | give an integer"},
      {R"({"decoder_start_token_id": [3]})",
       "g.json: 'decoder_start_token_id' is [3] | give an integer"},
      {R"({"top_p": "x"})", "g.json: 'top_p' is \"x\" | give a number"},
      {R"({"eos_token_id": [1, -2]})",
       "g.json: 'eos_token_id' is [1,-2] | give a token id, or a list of token ids"},
      {R"({"stop_strings": [1]})",
       "g.json: 'stop_strings' is [1] | give a string, or a list of strings"},
      {R"({"bad_words_ids": [1]})",
       "g.json: 'bad_words_ids' is [1] | give a list of lists of token ids"},
      {R"({"sequence_bias": [[1, 2]]})",
       "g.json: 'sequence_bias' is [[1,2]] | give a list of [[token ids], bias]"},
      {R"({"exponential_decay_length_penalty": 3})",
       "g.json: 'exponential_decay_length_penalty' is 3 | give [start, factor]"},
      {R"({"early_stopping": "soon"})",
       "g.json: 'early_stopping' is \"soon\" | give true, false or \"never\""},
      {R"({"top_p": 1.5})", "'top_p' is 1.5; it must be between 0 and 1 | "},
      {R"({"repetition_penalty": 0})", "'repetition_penalty' is 0.0; it must be above 0 | "},
      {R"({"stop_strings": ""})",
       "'stop_strings' is \"\"; it must be a text of one character or more | "},
  };
  for (const auto& [json, wanted] : cases) EXPECT_EQ(error_of(json), wanted) << json;
}

}  // namespace
}  // namespace accel::generation_config_test
