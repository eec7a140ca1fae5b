// The choice of a next token.
#pragma once

#include <cstdint>
#include <span>

#include "core/sample_rng.h"
#include "core/text_generator.h"

namespace accel {

/// The position of the chosen logit. Of equal ones the first counts as the likelier. Takes one
/// number of `rng`, or none at temperature 0. Throws DivergedError when one is NaN or all are -inf.
int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, SampleRng& rng);

}  // namespace accel
