// Extractive question answering: the first and the last token of an answer.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "core/api/question_windows.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "kernels/cross_entropy.h"
#include "train/tasks/answer_search.h"

namespace accel {
namespace {

struct QuestionAnsweringOptions : AnswerOptions {};

class QuestionAnswering final : public Task, public FindsAnswers {
 public:
  static constexpr auto kName = "question_answering";
  static constexpr const char* kHintFor[] = {"squad", "extractive_qa", "question-answering"};
  static constexpr auto kSummary =
      "Cross-entropy on the first and the last token of an answer within a text.";

  static Schema<QuestionAnsweringOptions> schema();

  QuestionAnswering(const QuestionAnsweringOptions& options, const TaskContext& context)
      : options_(options), has_windows_(has_question_windows(context.data)) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.target == Shape{1, 2} && data.target_type == DType::kI64) {
      check_options();
      return;
    }
    throw Error(ExitCode::kRecipe,
                text("the task 'question_answering' needs the first and the last token of an "
                     "answer, int64 [1, 2], but the target is {} {}",
                     name_of(data.target_type), to_string(data.target)),
                "the dataset 'question_answering' has them, and 'npy' from an array of shape "
                "[samples, 1, 2]");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return mean_loss(scores(model, batch), batch);
  }

  /// The output is answer_places() of windows of questions, else the likeliest span of at most
  /// `max_answer_length` tokens, int64 [batch, 1, 2].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor all = scores(model, batch);
    // Data for predictions has no spans.
    const bool has_spans = batch.targets.dim() == 3;
    const at::Tensor output = has_windows_ ? answer_places(all, batch.lengths, options_.n_best_size)
                                           : likeliest(all, batch);
    return {has_spans ? mean_loss(all, batch) : all.sum().mul(0), output};
  }

  std::vector<std::string> metrics() const override {
    if (has_windows_) return {options_.version_2_with_negative ? "squad_v2" : "squad"};
    return {"exact_match", "span_f1"};
  }
  std::vector<std::string> default_metrics() const override { return metrics(); }

  AnswerOptions answer_options() const override { return options_; }

 private:
  /// Spans of other datasets have no texts.
  void check_options() const {
    if (has_windows_) return;
    const AnswerOptions defaults;
    const std::pair<bool, const char*> of_texts[] = {
        {options_.n_best_size != defaults.n_best_size, "n_best_size"},
        {options_.version_2_with_negative, "version_2_with_negative"}};
    for (const auto& [given, name] : of_texts) {
      if (!given) continue;
      throw Error(
          ExitCode::kRecipe,
          text("'{}' of the task 'question_answering' has no effect on spans of tokens", name),
          "use data of type 'question_answering', or leave it out");
    }
  }

  /// F32 [batch, length, 2].
  static at::Tensor scores(Model& model, const Batch& batch) {
    at::Tensor scores = model.forward_batch(batch).to(at::kFloat);
    if (scores.dim() == 3 && scores.size(1) == batch.inputs.size(1) && scores.size(2) == 2) {
      return scores;
    }
    throw Error(ExitCode::kRecipe,
                text("the task 'question_answering' needs two logits for every token, but the "
                     "model's output is {}",
                     shape_text(scores)),
                "a model such as 'bert' has them with 'head: span'");
  }

  /// The mean of both cross-entropies over all positions, as in transformers: positions beyond the
  /// sequence are ignored, padding is not masked.
  static at::Tensor mean_loss(const at::Tensor& scores, const Batch& batch) {
    const int64_t length = scores.size(1);
    const auto of = [&](int64_t side) {
      const at::Tensor logits = scores.select(2, side).contiguous();
      // The mean over no samples is NaN, which must not reach the weights.
      const at::Tensor known = places(batch.readable_targets(), side);
      if (outside(known, length).all().item<bool>()) return logits.sum().mul(0);
      const at::Tensor place = places(batch.targets, side);
      const at::Tensor counted = place.masked_fill(outside(place, length), kIgnoredTarget);
      return cross_entropy(logits, counted, kIgnoredTarget);
    };
    return of(0).add(of(1)).div(2);
  }

  /// The first or last tokens of spans [batch, 1, 2]. Rows to be predicted have numbers of any
  /// type.
  static at::Tensor places(const at::Tensor& spans, int64_t side) {
    return spans.view({-1, 2}).to(at::kLong).select(1, side);
  }

  /// Which of `places` are no tokens of a sequence.
  static at::Tensor outside(const at::Tensor& places, int64_t length) {
    return places.lt(0).logical_or(places.ge(length));
  }

  at::Tensor likeliest(const at::Tensor& scores, const Batch& batch) const {
    const int64_t length = scores.size(1);
    // [batch, first, last]
    at::Tensor sums = scores.select(2, 0).unsqueeze(2).add(scores.select(2, 1).unsqueeze(1));
    const auto flags = at::TensorOptions().dtype(at::kBool).device(scores.device());
    at::Tensor allowed =
        at::ones({length, length}, flags).triu().tril(options_.max_answer_length - 1).unsqueeze(0);
    if (batch.lengths.defined()) {
      const at::Tensor places = at::arange(length, batch.lengths.options());
      allowed = allowed.logical_and(places.lt(batch.lengths.view({-1, 1, 1})));
    }
    sums = sums.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
    const at::Tensor best = sums.flatten(1).argmax(1);
    return at::stack({best.div(length, "floor"), best.remainder(length)}, 1).unsqueeze(1);
  }

  AnswerOptions options_;
  bool has_windows_;
};

Schema<QuestionAnsweringOptions> QuestionAnswering::schema() {
  using Options = QuestionAnsweringOptions;
  const auto member = [](auto AnswerOptions::*field) {
    return static_cast<
        std::remove_reference_t<decltype(std::declval<Options&>().*field)> Options::*>(field);
  };
  return Schema<Options>()
      .field("max_answer_length", member(&AnswerOptions::max_answer_length),
             "The most tokens of a predicted answer; the loss does not depend on it.",
             at_least<int64_t>(1))
      .field("n_best_size", member(&AnswerOptions::n_best_size),
             "First and last tokens of each window that are combined to answers.",
             between<int64_t>(1, 1000))
      .field("version_2_with_negative", member(&AnswerOptions::version_2_with_negative),
             "Whether a context may have no answer, as in SQuAD 2: then the answer is empty if its "
             "score, of the first token, is high enough.")
      .field("null_score_diff_threshold", member(&AnswerOptions::null_score_diff_threshold),
             "How far the score of no answer must exceed that of the best one.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (options.version_2_with_negative || options.null_score_diff_threshold == 0) return;
        reading.problems.error(
            node.where,
            "'null_score_diff_threshold' has no effect without 'version_2_with_negative'",
            "set 'version_2_with_negative: true', or leave it out");
      });
}

const Register<QuestionAnswering> question_answering;

}  // namespace
}  // namespace accel
