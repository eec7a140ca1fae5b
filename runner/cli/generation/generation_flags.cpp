#include "runner/cli/generation/generation_flags.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/plan/number_text.h"

namespace accel {
namespace {

constexpr int64_t kMost = 1'000'000'000;

/// Reads the value of a flag in the form of a key of generation_config.json.
void read_json_flag(const char* flag, const char* key, const std::string& value,
                    GenerationConfig& to) {
  if (value.empty()) return;
  const auto parsed = nlohmann::json::parse(value, nullptr, false);
  if (parsed.is_discarded()) {
    throw Error(ExitCode::kRecipe, text("{} is not JSON: {}", flag, value));
  }
  try {
    read_generation_config(nlohmann::json{{key, parsed}}, flag, to);
  } catch (const DataError& error) {
    throw Error(ExitCode::kRecipe, error.what(), error.hint());
  }
}

void add_sampling_flags(CLI::App& verb, GenerationFlags& to) {
  verb.add_option("--temperature", to.temperature,
                  "temperature of sampling: lower is less random; 0: greedy decoding")
      ->check(CLI::Range(0.0, 1000.0));
  verb.add_option("--top-k", to.top_k, "sample from the k most likely tokens; 0: from all")
      ->check(CLI::Range(int64_t{0}, kMost));
  verb.add_option("--top-p", to.top_p,
                  "sample from the most likely tokens whose probabilities add up to p")
      ->check(CLI::Range(1e-9, 1.0));
  verb.add_option("--min-p", to.min_p,
                  "sample from tokens with at least this share of the largest probability")
      ->check(CLI::Range(0.0, 1.0));
  verb.add_option("--typical-p", to.typical_p,
                  "sample from the tokens nearest to the entropy whose probabilities add up to p")
      ->check(CLI::Range(1e-9, 1.0));
  verb.add_option("--seed", to.seed, "seed of sampling; default: 42");
}

void add_beam_flags(CLI::App& verb, GenerationFlags& to) {
  verb.add_option("--num-beams", to.num_beams,
                  "beam search with this many beams, slower by that factor; default: 1, off")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  verb.add_option("--length-penalty", to.length_penalty,
                  "of beams: above 0 prefers longer texts; default: 1");
  verb.add_option("--early-stopping", to.early_stopping,
                  "of beams: end with as many texts as beams (true), by a heuristic (false, the "
                  "default), or when none can be better (never)")
      ->check(CLI::IsMember({"true", "false", "never"}));
}

void refuse_beam_flags_without_beams(const GenerationConfig& config, const GenerationFlags& flags) {
  if (config.num_beams > 1) return;
  const char* flag = flags.length_penalty           ? "--length-penalty"
                     : flags.early_stopping.empty() ? nullptr
                                                    : "--early-stopping";
  if (!flag) return;
  throw Error(ExitCode::kRecipe, text("'{}' cannot act: there is no beam search", flag),
              "add '--num-beams', or leave it out");
}

}  // namespace

void add_generation_flags(CLI::App& verb, GenerationFlags& to) {
  verb.add_option("--generation-config", to.config_file,
                  "a generation_config.json, instead of that of a Hugging Face folder");
  verb.add_option("--max-new-tokens", to.max_new_tokens,
                  "largest number of tokens to generate; default: 100, or that of the config")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  verb.add_option("--min-new-tokens", to.min_new_tokens, "no end token before this many tokens")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  add_repeated(verb, "--stop", to.stop_strings,
               "end with this text, which the output keeps; may be repeated");
  add_sampling_flags(verb, to);
  verb.add_option("--repetition-penalty", to.repetition_penalty,
                  "above 1 makes tokens of the prompt and the text less likely; default: 1")
      ->check(CLI::Range(1e-9, 1000.0));
  verb.add_option("--no-repeat-ngram-size", to.no_repeat_ngram_size,
                  "no n tokens occur twice; default: 0, off")
      ->check(CLI::Range(int64_t{0}, kMost));
  verb.add_option("--sequence-bias", to.sequence_bias,
                  "added to logits, as JSON: [[[token ids], bias], ...]");
  add_beam_flags(verb, to);
}

GenerationConfig apply_generation_flags(GenerationConfig config, const GenerationFlags& flags) {
  if (!flags.config_file.empty()) {
    config = {.eos_token_id = std::move(config.eos_token_id)};
    read_generation_config(std::filesystem::path(flags.config_file), config);
  }
  const auto set = [](const auto& flag, auto& to) {
    if (flag) to = *flag;
  };
  set(flags.max_new_tokens, config.max_new_tokens);
  set(flags.min_new_tokens, config.min_new_tokens);
  set(flags.temperature, config.temperature);
  set(flags.top_k, config.top_k);
  set(flags.top_p, config.top_p);
  set(flags.min_p, config.min_p);
  set(flags.typical_p, config.typical_p);
  set(flags.repetition_penalty, config.repetition_penalty);
  set(flags.no_repeat_ngram_size, config.no_repeat_ngram_size);
  set(flags.num_beams, config.num_beams);
  set(flags.length_penalty, config.length_penalty);
  if (!flags.stop_strings.empty()) config.stop_strings = flags.stop_strings;
  read_json_flag("--sequence-bias", "sequence_bias", flags.sequence_bias, config);
  const bool is_never = flags.early_stopping == "never";
  read_json_flag("--early-stopping", "early_stopping",
                 is_never ? "\"never\"" : flags.early_stopping, config);
  const bool samples =
      flags.temperature || flags.top_k || flags.top_p || flags.min_p || flags.typical_p;
  if (samples) config.do_sample = true;
  if (!samples && flags.num_beams && *flags.num_beams > 1) config.do_sample = false;
  if (config.temperature == 0) config.do_sample = false;
  config.check();
  refuse_beam_flags_without_beams(config, flags);
  return config;
}

void add_cache_flag(CLI::App& verb, std::string& to) {
  std::vector<std::string> names;
  for (const auto& [value, name] : EnumNames<CacheDtype>::kValues) names.emplace_back(name);
  verb.add_option("--cache-dtype", to,
                  "type of the key-value cache: bf16 has half the bytes of fp32, int8 a quarter "
                  "and a scale per head and token; default: that of the model")
      ->check(CLI::IsMember(names));
}

void apply_cache_flag(const std::string& name, const ModelTexts& texts, GenerationRequest& to) {
  if (name.empty()) return;
  if (!texts.is_cached()) {
    throw Error(ExitCode::kRecipe, "'--cache-dtype' cannot act: the model has no key-value cache",
                "leave it out");
  }
  for (const auto& [value, known] : EnumNames<CacheDtype>::kValues) {
    if (name == known) to.cache_dtype = value;
  }
  to.on_cache = [name](int64_t bytes) {
    std::cerr << text("key-value cache: {}, {}\n", name, bytes_text(bytes));
  };
}

void print_generation_config(const GenerationConfig& config, const GenerationFlags& flags,
                             const std::string& file) {
  const std::string& from = flags.config_file.empty() ? file : flags.config_file;
  const std::string summary = sampling_summary(config);
  if (from.empty() || summary.empty()) return;
  std::cerr << text("generation config of {}: {}", from, summary) << '\n';
}

}  // namespace accel
