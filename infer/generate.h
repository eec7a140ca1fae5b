// Continuation of texts by a language model, and targets of sources by an encoder-decoder: greedy
// decoding, sampling and beam search.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/api/encoder_decoder.h"
#include "core/api/model.h"
#include "infer/generation_request.h"

namespace accel {

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
/// prompt of each, which lengths of the config count.
void generate_targets(EncoderDecoder& model, const std::vector<std::vector<int64_t>>& sources,
                      const GenerationRequest& request,
                      const std::function<void(size_t, GeneratedTokens)>& done);

}  // namespace accel
