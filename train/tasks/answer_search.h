// The answer of each question, from the likeliest places in all windows of its context.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/api/question_windows.h"
#include "data/loader/questions.h"

namespace accel {

/// Names and meanings are those of transformers' run_qa.py.
struct AnswerOptions {
  int64_t max_answer_length = 30;
  int64_t n_best_size = 20;
  bool version_2_with_negative = false;
  double null_score_diff_threshold = 0;
};

/// Implemented by tasks whose output answer_search() reads.
class FindsAnswers {
 public:
  virtual ~FindsAnswers() = default;
  virtual AnswerOptions answer_options() const = 0;
};

/// The output of a batch for find_answers(), F32 [batch, 1 + 4 n]: the score of no answer, the
/// positions of the n likeliest first tokens, their logits, and those of the last tokens; -1 beyond
/// the sample. `scores`: [batch, length, 2]; `lengths`: tokens of each sample, or undefined.
at::Tensor answer_places(const at::Tensor& scores, const at::Tensor& lengths, int64_t n_best_size);

struct FoundAnswer {
  std::string text;            ///< "": the context has no answer
  double null_score_diff = 0;  ///< score of no answer above that of the best span
  /// The best spans by probability, those of equal text too.
  std::vector<std::pair<std::string, double>> n_best;
};

/// The answers by number of the question. `rows`: the sample's index in the dataset and its columns
/// of answer_places(), F64 [samples, 2 + 4 n].
std::map<int64_t, FoundAnswer> find_answers(const Questions& questions, const at::Tensor& rows,
                                            const AnswerOptions& options);

}  // namespace accel
