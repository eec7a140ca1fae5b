// Metrics of answers to questions, as texts.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/metrics/sample_metric.h"

namespace accel {

struct AnsweredQuestion {
  std::string prediction;
  std::vector<std::string> references;  ///< none: the context has no answer
};

/// A metric over the answers that all windows of each question give.
class AnswerMetric : public SampleMetric {
 public:
  /// The answers from rows of samples, F64 [samples, 1 + columns of the task's output]: the index
  /// of the sample in its dataset, and the output.
  using Answers = std::function<std::vector<AnsweredQuestion>(const at::Tensor& rows)>;

  /// Called before the first update().
  void set_answers(Answers answers) { answers_ = std::move(answers); }
  /// In [0, 100], as those of the package evaluate; NaN without questions.
  std::vector<std::pair<std::string, double>> values() const final;
  /// Whether questions without an answer have a score.
  virtual bool scores_no_answer() const = 0;

 private:
  at::Tensor rows_of(const EvalStep& step) const final;
  double value_of(const at::Tensor& rows) const final;
  virtual std::vector<std::pair<std::string, double>> scores_of(
      const std::vector<AnsweredQuestion>& answered) const = 0;

  Answers answers_;
};

}  // namespace accel
