// Log-probabilities of completions under a language model.
#pragma once

#include "core/api/model.h"

namespace accel {

/// A batch of sequence pairs (has_sequence_pairs()) as rows: the first sequences of all samples,
/// then the second ones. `targets` are kIgnoredTarget outside of completions.
Batch pair_rows(const Batch& pairs);

/// Completion tokens of the first sequences of a batch of sequence pairs.
double chosen_tokens(const Batch& pairs);

struct CompletionScores {
  at::Tensor log_probs;  ///< [rows] F32, sums over the completion's tokens
  at::Tensor tokens;     ///< [rows] int64, completion tokens
};

/// The log-probability of each target of `rows`, [rows, length] F32, with logits divided by
/// `temperature`; 0 where the target is kIgnoredTarget. Only the logits of targets are computed,
/// tokens_per_chunk() at a time. Throws Error (kRecipe) that names `task` for a model that is no
/// language model.
at::Tensor target_log_probs(const char* task, Model& model, const Batch& rows,
                            double temperature = 1);

/// Of the rows of pair_rows(), as target_log_probs().
CompletionScores score_completions(const char* task, Model& model, const Batch& rows);

}  // namespace accel
