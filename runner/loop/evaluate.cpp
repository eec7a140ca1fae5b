#include "runner/loop/evaluate.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "models/module_state.h"
#include "runner/dist/operations.h"
#include "runner/loop/to_batch.h"

namespace accel {
namespace {

/// The models in eval mode, with the weights the callbacks want evaluated.
class EvalMode {
 public:
  explicit EvalMode(Job& job) : job_(job) {
    for (const auto& callback : job_.callbacks) callback->before_eval();
    for (Model* model : job_.learning) set_training(*model, false);
  }
  ~EvalMode() {
    for (Model* model : job_.learning) set_training(*model, true);
    std::for_each(job_.callbacks.rbegin(), job_.callbacks.rend(),
                  [](const auto& callback) { callback->after_eval(); });
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Job& job_;
};

/// The models with the weights that stand for all ranks.
class United {
 public:
  explicit United(const Job& job) : job_(job) {
    for (const TrainedPart& part : job_.trained) part.strategy->unite();
  }
  ~United() {
    for (const TrainedPart& part : job_.trained) part.strategy->separate();
  }
  United(const United&) = delete;
  United& operator=(const United&) = delete;

 private:
  const Job& job_;
};

/// What one batch adds: loss times weight, the weight, and the sums of every metric.
std::vector<double> sums_of(Job& job, const Batch& batch) {
  std::vector<double> sums = {0, job.task->weight(batch)};
  for (const auto& metric : job.metrics) {
    std::fill(metric->sums().begin(), metric->sums().end(), 0.0);
  }
  if (sums[1] > 0) {
    const AutocastScope casts = job.precision->autocast();
    const Evaluation result = job.task->evaluate(*job.model, batch);
    const double loss = result.loss.item().toDouble();
    sums[0] = loss * sums[1];
    for (const auto& metric : job.metrics) metric->update({result.output, batch, loss, sums[1]});
  }
  for (const auto& metric : job.metrics) {
    sums.insert(sums.end(), metric->sums().begin(), metric->sums().end());
  }
  return sums;
}

/// Adds what all ranks found in one window, in the order of its batches: any number of ranks gives
/// the same bits.
void add_window(const Job& job, const Window& window, const std::vector<std::vector<double>>& own,
                std::vector<double>& total) {
  const size_t width = total.size();
  std::vector<double> all(static_cast<size_t>(window.parts) * width);
  for (size_t i = 0; i < own.size(); ++i) {
    const auto part = static_cast<size_t>(window.micro_batches[i].part);
    std::copy(own[i].begin(), own[i].end(), all.begin() + static_cast<ptrdiff_t>(part * width));
  }
  sum_over_ranks(*job.group, all, "evaluation");
  for (size_t i = 0; i < all.size(); ++i) total[i % width] += all[i];
}

}  // namespace

std::optional<std::map<std::string, double>> evaluate(Job& job, const std::function<bool()>& stop) {
  const c10::NoGradGuard no_grad;
  for (const TrainedPart& part : job.trained) part.strategy->share_buffers();
  const United united(job);
  const EvalMode mode(job);
  size_t width = 2;
  for (const auto& metric : job.metrics) width += metric->sums().size();
  std::vector<double> total(width);
  job.eval_loader->seek(0, 0);
  while (job.eval_loader->has_next()) {
    if (stop && stop()) return std::nullopt;
    const Window window = job.eval_loader->next();
    std::vector<std::vector<double>> own;
    const WindowBatches batches(window, job.device);
    for (const Batch& batch : batches.list()) own.push_back(sums_of(job, batch));
    add_window(job, window, own, total);
  }
  if (total[1] <= 0) {
    throw DataError("nothing in the eval data carries a loss", "look at 'data.eval'");
  }
  std::map<std::string, double> results = {{"eval/loss", total[0] / total[1]}};
  auto next = total.begin() + 2;
  for (const auto& metric : job.metrics) {
    const auto size = static_cast<ptrdiff_t>(metric->sums().size());
    std::copy(next, next + size, metric->sums().begin());
    next += size;
    for (const auto& [name, value] : metric->values()) results["eval/" + name] = value;
  }
  return results;
}

}  // namespace accel
