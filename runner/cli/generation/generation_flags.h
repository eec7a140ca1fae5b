// Flags of text generation, in the words of transformers' GenerationConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/generation_config.h"
#include "infer/model_texts.h"

namespace CLI {
class App;
}

namespace accel {

/// Flags that are not given leave the config as it is.
struct GenerationFlags {
  std::string config_file;  ///< instead of the config of the source
  std::optional<int64_t> max_new_tokens, min_new_tokens;
  std::optional<double> temperature, top_p, min_p, typical_p;
  std::optional<int64_t> top_k;
  std::optional<double> repetition_penalty, length_penalty;
  std::optional<int64_t> no_repeat_ngram_size, num_beams;
  std::string early_stopping, sequence_bias;  ///< JSON
  std::vector<std::string> stop_strings;
  int64_t seed = 42;
};

void add_generation_flags(CLI::App& verb, GenerationFlags& to);

/// `config`, or that of the file in `flags`, changed by the flags: a flag of sampling turns
/// do_sample on, a temperature of 0 turns it off, as do several beams without such a flag. Throws
/// Error, DataError.
GenerationConfig apply_generation_flags(GenerationConfig config, const GenerationFlags& flags);

/// `--cache-dtype`.
void add_cache_flag(CLI::App& verb, std::string& to);
/// Sets the type of the key-value cache, and prints its bytes at the end of a generation. `name`
/// empty: unchanged. Throws Error (kRecipe) for a model without a cache.
void apply_cache_flag(const std::string& name, const ModelTexts& texts, GenerationRequest& to);

/// Prints what `config` changes on standard error, if it comes from a file: that of the flags or
/// `file`, the source's.
void print_generation_config(const GenerationConfig& config, const GenerationFlags& flags,
                             const std::string& file);

}  // namespace accel
