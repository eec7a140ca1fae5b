// Tokens that a language model writes.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "core/model.h"
#include "core/text_generator.h"

namespace accel {

struct GenerationRequest {
  SamplingOptions sampling;
  uint64_t stream = 0;     ///< tells apart what is drawn with one seed
  std::set<int64_t> ends;  ///< tokens that end it
  int64_t window = 0;  ///< the most tokens to see at once, for a model that does not say; 0: no end
};

struct GeneratedTokens {
  std::vector<int64_t> tokens;  ///< those added, without the end token
  bool ended = false;
};

/// Goes on behind `prompt`, which has at least one token. Of a prompt that is longer than the model
/// can see the end counts; when what was written no longer fits, the model goes on from its newer
/// half. Each token depends on the weights, the prompt and the request alone. Leaves the model and
/// libtorch's generators as they were. Throws DivergedError.
GeneratedTokens generate_tokens(LanguageModel& model, std::vector<int64_t> prompt,
                                const GenerationRequest& request);

}  // namespace accel
