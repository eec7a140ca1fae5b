// Logits of language models.
#pragma once

#include "core/api/model.h"

namespace accel {

/// [..., width] of LanguageModel::hidden() to logits [..., vocab], with the bound of
/// SoftcappedLogits. Ranks that divide the vocabulary gather all of it. A quantized head is not
/// dequantized for few rows, as in quantized_linear().
at::Tensor token_logits(LanguageModel& model, const at::Tensor& hidden);

/// Rows of the head's weight, those of this rank.
int64_t head_rows(LanguageModel& model);

}  // namespace accel
