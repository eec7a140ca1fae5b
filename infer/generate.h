// Continuation of texts by a language model, and targets of sources by an encoder-decoder: greedy
// decoding, sampling and beam search.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/api/encoder_decoder.h"
#include "core/api/model.h"
#include "infer/generation_config.h"
#include "infer/sequence_batch.h"

namespace accel {

struct GenerationRequest {
  GenerationConfig config;
  int64_t default_new_tokens = 100;  ///< where the config limits no length
  int64_t seed = 42;
  uint64_t first_stream = 0;           ///< random stream of the first prompt; the next ones follow
  std::vector<uint64_t> streams = {};  ///< of each prompt, instead of `first_stream`
  int64_t window = 0;      ///< context length of a model that declares none; 0: unlimited
  int64_t batch_size = 8;  ///< sequences continued at once; beams of one prompt count as one
  int64_t prefill_chunk = 512;
  std::optional<CacheDtype> cache_dtype = {};  ///< of keys and values; none: as computed
  /// Called at the end with the bytes that are allocated for keys and values; null: never.
  std::function<void(int64_t bytes)> on_cache = {};
  StagedForward staged = {};  ///< of a model in pipeline stages; null: the whole model is here
  /// Whether a sequence of prompt and new tokens ends with a stop string; null: none has one.
  std::function<bool(std::span<const int64_t> tokens)> is_stopped = {};
  /// Called for each new token but the end token as soon as it is known; null: never. Not called in
  /// beam search.
  std::function<void(size_t prompt, int64_t token)> on_token = {};
};

enum class GenerationEnd { kLength, kToken, kStopString };

struct GeneratedTokens {
  std::vector<int64_t> tokens;  ///< generated, without the end token
  GenerationEnd end = GenerationEnd::kLength;
  int64_t end_token = -1;  ///< of GenerationEnd::kToken; in beam search -1
};

/// Continues each prompt, of one token or more. `done(i, result)` is called for prompt i when it
/// ends; of prompts that end in one step, the earlier row's first. Tokens of a prompt depend on the
/// weights, the prompt, its stream and the request, and on other prompts by rounding only. Model
/// and libtorch's generators stay unchanged. Throws DivergedError, and Error (kRecipe).
void generate_tokens(LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
                     const GenerationRequest& request,
                     const std::function<void(size_t, GeneratedTokens)>& done);

/// Of one prompt.
GeneratedTokens generate_tokens(LanguageModel& model, const std::vector<int64_t>& prompt,
                                const GenerationRequest& request);

/// As generate_tokens(), the target of each source, of one token or more: the start token is the
/// prompt of each, which lengths of the config count. In beam search sources follow one another.
void generate_targets(EncoderDecoder& model, const std::vector<std::vector<int64_t>>& sources,
                      const GenerationRequest& request,
                      const std::function<void(size_t, GeneratedTokens)>& done);

/// Beam search of transformers, with sampling where the config says so, for `at_once` prompts
/// together: their beams are the rows of `batch`, which has none yet.
void search_beams(SequenceBatch& batch, const std::vector<std::vector<int64_t>>& prompts,
                  const GenerationRequest& request, size_t at_once,
                  const std::function<void(size_t, GeneratedTokens)>& done);

}  // namespace accel
