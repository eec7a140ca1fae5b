// Prompts with the answers to other prompts.
#pragma once

#include <cstdint>

#include "core/api/batch.h"

namespace accel {

/// The prompt of each row followed by the answer of the row before it, of the last row for the
/// first one; at most `max_length` tokens. `batch` has the targets of answers only: the prompt ends
/// with the first position that has a target. Without `segments`.
Batch mismatched_answers(const Batch& batch, int64_t max_length);

}  // namespace accel
