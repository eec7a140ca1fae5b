// Samples of answers with a preference: two token sequences, such as a preferred and a rejected
// answer to one prompt, or one sequence with a label.
#pragma once

#include "core/api/data_shape.h"

namespace accel {

/// Sequences of a sample of pairs.
inline constexpr int64_t kPairSize = 2;

/// Whether each sample is two sequences, one after the other in `input`: `segments` is 0 in the
/// first and 1 in the second, and the padding of a micro-batch follows. Targets are the next tokens
/// of each sequence. The shape's `input` is {longest sequence} and its `target` {2, longest
/// sequence}, so that tasks of single sequences refuse it.
inline bool has_sequence_pairs(const DataShape& data) {
  return data.padding && data.input.size() == 1 && data.target == Shape{kPairSize, data.input[0]};
}

/// Columns of the output of preference tasks, float32 [samples, columns]. A task without
/// log-probabilities has the first two only.
enum PairColumn : int64_t {
  kChosenReward,
  kRejectedReward,
  kChosenLogProb,
  kRejectedLogProb,
  kPairColumns,
};

/// Whether each sample is one sequence with a label: `segments` is 1 on all tokens of a desirable
/// answer with its prompt, else 0. Targets are the next tokens of the answer. The shape's `target`
/// is {1, longest sequence}, so that other tasks refuse it.
inline bool has_labelled_sequences(const DataShape& data) {
  return data.padding && data.input.size() == 1 && data.target == Shape{1, data.input[0]};
}

/// Columns of the output of tasks on labelled sequences, float32 [samples, columns].
enum LabelledColumn : int64_t {
  kAnswerReward,
  kAnswerLogProb,
  kAnswerLabel,  ///< 1 for desirable answers, else 0
  kAnswerKl,     ///< the estimate that applied to the sample
  kLabelledColumns,
};

}  // namespace accel
