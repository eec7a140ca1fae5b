#include "runner/loop/evaluate.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "models/module_state.h"
#include "runner/loop/to_batch.h"

namespace accel {
namespace {

/// The model in eval mode, with the weights the callbacks want evaluated.
class EvalMode {
 public:
  explicit EvalMode(Job& job) : job_(job) {
    for (const auto& callback : job_.callbacks) callback->before_eval();
    set_training(*job_.model, false);
  }
  ~EvalMode() {
    set_training(*job_.model, true);
    std::for_each(job_.callbacks.rbegin(), job_.callbacks.rend(),
                  [](const auto& callback) { callback->after_eval(); });
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Job& job_;
};

}  // namespace

std::optional<std::map<std::string, double>> evaluate(Job& job, const std::function<bool()>& stop) {
  const c10::NoGradGuard no_grad;
  const EvalMode mode(job);
  for (const auto& metric : job.metrics) {
    std::fill(metric->sums().begin(), metric->sums().end(), 0.0);
  }
  double loss_sum = 0, weight_sum = 0;
  job.eval_loader->seek(0, 0);
  while (job.eval_loader->has_next()) {
    if (stop && stop()) return std::nullopt;
    for (const Batch& batch : to_batches(job.eval_loader->next())) {
      const double weight = job.task->weight(batch);
      if (weight <= 0) continue;
      const AutocastScope casts = job.precision->autocast();
      const Evaluation result = job.task->evaluate(*job.model, batch);
      const double loss = result.loss.item().toDouble();
      loss_sum += loss * weight;
      weight_sum += weight;
      for (const auto& metric : job.metrics) {
        metric->update({result.output, batch, loss, weight});
      }
    }
  }
  if (weight_sum <= 0) {
    throw DataError("nothing in the eval data carries a loss", "look at 'data.eval'");
  }
  std::map<std::string, double> results = {{"eval/loss", loss_sum / weight_sum}};
  for (const auto& metric : job.metrics) {
    for (const auto& [name, value] : metric->values()) results["eval/" + name] = value;
  }
  return results;
}

}  // namespace accel
