#include "train/job/build_answers.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "data/loader/questions.h"
#include "kernels/choice.h"
#include "train/metrics/squad.h"
#include "train/tasks/answer_search.h"

namespace accel {
namespace {

void check_answerable(const Job& job, const Questions& questions) {
  int64_t unanswerable = 0;
  for (int64_t i = 0; i < questions.count(); ++i) {
    unanswerable += questions.question(i).answers.empty();
  }
  if (unanswerable == 0) return;
  throw RecipeError({{recipe_place(job.resolved, "data.eval"),
                      text("{} of {} questions have no answer, and the metric 'squad' has no score "
                           "for them",
                           unanswerable, questions.count()),
                      "set 'task.version_2_with_negative: true', or leave these rows out"}});
}

}  // namespace

void build_answers(Job& job) {
  const auto* task = dynamic_cast<FindsAnswers*>(job.task.get());
  if (!task || !job.eval_loader || has_shapes_only()) return;
  std::optional<Questions> found = Questions::of(job.eval_loader->dataset());
  if (!found) return;
  const auto questions = std::make_shared<const Questions>(*std::move(found));
  const AnswerOptions options = task->answer_options();
  for (const auto& metric : job.metrics) {
    auto* answers = dynamic_cast<AnswerMetric*>(metric.get());
    if (!answers) continue;
    if (!answers->scores_no_answer()) check_answerable(job, *questions);
    answers->set_answers([questions, options](const at::Tensor& rows) {
      std::vector<AnsweredQuestion> out;
      for (auto& [number, answer] : find_answers(*questions, rows, options)) {
        const auto references = questions->question(number).answers;
        out.push_back({answer.text, {references.begin(), references.end()}});
      }
      return out;
    });
  }
}

}  // namespace accel
