// Lines of predicted answers to questions, each of several samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/api/batch.h"
#include "core/api/task.h"
#include "data/loader/questions.h"
#include "train/job/data_ranks.h"
#include "train/tasks/answer_search.h"

namespace accel {

class AnswerLines {
 public:
  /// None for another task or other samples. `dataset` must outlive it.
  static std::optional<AnswerLines> of(const Task& task, const Dataset& dataset);

  /// Takes the task's output for the first `count` samples of a batch.
  void add(const Batch& batch, const at::Tensor& output, int64_t count);
  /// Shares the rows since the last call. All ranks call it.
  void gather(const DataRanks& ranks);
  /// Calls `line` for each question in order: `row`, `id`, `answer`; `null_score_diff` where there
  /// may be no answer; with `n_best` the best spans and their probabilities.
  void write(bool n_best, const std::function<void(const std::string&)>& line) const;

 private:
  AnswerLines(Questions questions, AnswerOptions options)
      : questions_(std::move(questions)), options_(options) {}

  Questions questions_;
  AnswerOptions options_;
  size_t width_ = 0;             ///< numbers of a row
  std::string own_;              ///< bytes of rows of this rank
  std::vector<double> numbers_;  ///< of all ranks
};

}  // namespace accel
