// Extractive question answering: the first and the last token of an answer.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <limits>
#include <string>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "kernels/cross_entropy.h"

namespace accel {
namespace {

struct QuestionAnsweringOptions {
  int64_t max_answer_length = 30;
};

class QuestionAnswering final : public Task {
 public:
  static constexpr auto kName = "question_answering";
  static constexpr const char* kHintFor[] = {"squad", "extractive_qa", "question-answering"};
  static constexpr auto kSummary =
      "Cross-entropy on the first and the last token of an answer within a text.";

  static Schema<QuestionAnsweringOptions> schema() {
    return Schema<QuestionAnsweringOptions>().field(
        "max_answer_length", &QuestionAnsweringOptions::max_answer_length,
        "The most tokens of a predicted answer; the loss does not depend on it.",
        at_least<int64_t>(1));
  }

  QuestionAnswering(const QuestionAnsweringOptions& options, const TaskContext& context)
      : longest_(options.max_answer_length) {
    const DataShape& data = context.data;
    if (data.input.empty()) return;
    if (data.target == Shape{1, 2} && data.target_type == DType::kI64) return;
    throw Error(ExitCode::kRecipe,
                text("the task 'question_answering' needs the first and the last token of an "
                     "answer, int64 [1, 2], but the target is {} {}",
                     name_of(data.target_type), to_string(data.target)),
                "the dataset 'npy' has such targets from an array of shape [samples, 1, 2]");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return mean_loss(scores(model, batch), batch);
  }

  /// The output is the likeliest span of at most `max_answer_length` tokens, int64 [batch, 1, 2].
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor all = scores(model, batch);
    // Data for predictions has no spans.
    const bool has_spans = batch.targets.dim() == 3;
    return {has_spans ? mean_loss(all, batch) : all.sum().mul(0), likeliest(all, batch)};
  }

  std::vector<std::string> metrics() const override { return {"exact_match", "span_f1"}; }
  std::vector<std::string> default_metrics() const override { return {"exact_match", "span_f1"}; }

 private:
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
    const at::Tensor targets = batch.targets.view({-1, 2});
    const auto of = [&](int64_t side) {
      const at::Tensor place = targets.select(1, side);
      const at::Tensor outside = place.lt(0).logical_or(place.ge(length));
      const at::Tensor counted = place.masked_fill(outside, kIgnoredTarget);
      const at::Tensor logits = scores.select(2, side).contiguous();
      // The mean over no samples is NaN, which must not reach the weights.
      if (outside.all().item<bool>()) return logits.sum().mul(0);
      return cross_entropy(logits, counted, kIgnoredTarget);
    };
    return of(0).add(of(1)).div(2);
  }

  at::Tensor likeliest(const at::Tensor& scores, const Batch& batch) const {
    const int64_t length = scores.size(1);
    // [batch, first, last]
    at::Tensor sums = scores.select(2, 0).unsqueeze(2).add(scores.select(2, 1).unsqueeze(1));
    const auto flags = at::TensorOptions().dtype(at::kBool).device(scores.device());
    at::Tensor allowed = at::ones({length, length}, flags).triu().tril(longest_ - 1).unsqueeze(0);
    if (batch.lengths.defined()) {
      const at::Tensor places = at::arange(length, batch.lengths.options());
      allowed = allowed.logical_and(places.lt(batch.lengths.view({-1, 1, 1})));
    }
    sums = sums.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
    const at::Tensor best = sums.flatten(1).argmax(1);
    return at::stack({best.div(length, "floor"), best.remainder(length)}, 1).unsqueeze(1);
  }

  int64_t longest_;
};

const Register<QuestionAnswering> question_answering;

}  // namespace
}  // namespace accel
