// How a language model continues a text, with the names and defaults of transformers'
// GenerationConfig.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace accel {

/// When beam search ends: with num_beams finished beams (`true`), when a heuristic expects none
/// better (`false`), or when none can be better ("never").
enum class EarlyStopping { kFalse, kTrue, kNever };

struct SequenceBias {
  std::vector<int64_t> tokens;  ///< the bias is that of the last one after the others
  float bias = 0;
};

struct GenerationConfig {
  // Length. max_new_tokens has priority over max_length, which counts the prompt.
  std::optional<int64_t> max_new_tokens = {}, max_length = {};
  int64_t min_length = 0, min_new_tokens = 0;
  std::set<int64_t> eos_token_id = {};
  /// First token of an encoder-decoder's targets; bos_token_id is used in its absence.
  std::optional<int64_t> decoder_start_token_id = {}, bos_token_id = {};
  std::vector<std::string> stop_strings = {};

  // Beam search, greedy or by do_sample sampling; 1 beam: neither.
  int64_t num_beams = 1;
  double length_penalty = 1;  ///< exponent of the length that divides a beam's log-probability
  EarlyStopping early_stopping = EarlyStopping::kFalse;

  // Sampling.
  bool do_sample = false;
  double temperature = 1;
  int64_t top_k = 50;                ///< 0: off
  double top_p = 1;                  ///< 1: off
  std::optional<double> top_h = {};  ///< share of the entropy (Potraghloo et al. 2025)
  std::optional<double> min_p = {};  ///< share of the largest probability (arXiv:2407.01082)
  double typical_p = 1;              ///< locally typical sampling (arXiv:2202.00666); 1: off
  double epsilon_cutoff = 0, eta_cutoff = 0;  ///< arXiv:2210.15191; 0: off

  // Changes of scores.
  std::vector<SequenceBias> sequence_bias = {};
  double repetition_penalty = 1;  ///< CTRL (arXiv:1909.05858); 1: off
  int64_t no_repeat_ngram_size = 0;
  std::vector<std::vector<int64_t>> bad_words_ids = {};
  std::optional<int64_t> forced_bos_token_id = {};
  std::vector<int64_t> forced_eos_token_id = {};
  bool remove_invalid_values = false;
  std::optional<std::pair<int64_t, double>> exponential_decay_length_penalty = {};
  std::vector<int64_t> suppress_tokens = {}, begin_suppress_tokens = {};
  bool renormalize_logits = false;

  /// Largest number of new tokens after `prompt` tokens; `otherwise` if no key says it.
  int64_t new_tokens(int64_t prompt, int64_t otherwise) const;
  /// Throws Error (kRecipe) for values out of range, or that contradict each other.
  void check() const;
};

/// Applies the keys of a JSON object in the form of generation_config.json. Keys without effect on
/// tokens are skipped. Throws DataError, naming `file` and the key, for an unknown key, a value of
/// another type, and a feature that is not supported.
void read_generation_config(const nlohmann::json& config, const std::string& file,
                            GenerationConfig& to);
/// Of a file. Throws DataError.
void read_generation_config(const std::filesystem::path& file, GenerationConfig& to);

/// The keys of a generation config in a model's config.json. Folders of older transformers have
/// them there, and no generation_config.json. Keys that are null or without effect on tokens are
/// left out.
nlohmann::json generation_keys_in(const nlohmann::json& config);

/// The keys whose values differ from transformers' defaults, such as "do_sample: true, top_k: 20";
/// end tokens and lengths are left out.
std::string sampling_summary(const GenerationConfig& config);

}  // namespace accel
