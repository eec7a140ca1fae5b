#include "train/loop/evaluate.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/base/activity.h"
#include "models/layers/module_state.h"
#include "parallel/operations.h"
#include "train/metrics/sample_metric.h"
#include "train/optim/evaluation_weights.h"
#include "train/step/device_batches.h"

namespace accel {
namespace {

/// Puts the models into eval mode, with the weights that callbacks swap in.
class EvalMode {
 public:
  explicit EvalMode(Job& job) : job_(job) {
    each_averaged([](EvaluationWeights& weights) { weights.swap_in_evaluation_weights(); });
    for (const auto& callback : job_.callbacks) callback->before_eval();
    refresh_weights();
    for (Model* model : job_.trainable_models) set_training(*model, false);
  }
  ~EvalMode() {
    for (Model* model : job_.trainable_models) set_training(*model, true);
    std::for_each(job_.callbacks.rbegin(), job_.callbacks.rend(),
                  [](const auto& callback) { callback->after_eval(); });
    each_averaged([](EvaluationWeights& weights) { weights.restore_training_weights(); });
    refresh_weights();
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  template <class Visit>
  void each_averaged(const Visit& visit) {
    for (const OptimizerBinding& binding : job_.optimizers) {
      auto* averaged = dynamic_cast<EvaluationWeights*>(binding.optimizer);
      if (averaged) visit(*averaged);
      averages_ = averages_ || averaged;
    }
  }

  /// Callbacks and optimizers may have changed them.
  void refresh_weights() {
    if (job_.callbacks.empty() && !averages_) return;
    for (const OptimizerBinding& binding : job_.optimizers) binding.strategy->refresh_weights();
  }

  Job& job_;
  bool averages_ = false;  ///< an optimizer has weights for evaluations
};

/// Swaps the average of the ranks' weights into the models.
class AverageScope {
 public:
  explicit AverageScope(const Job& job) : job_(job) {
    for (const OptimizerBinding& binding : job_.optimizers) binding.strategy->swap_in_average();
  }
  ~AverageScope() {
    for (const OptimizerBinding& binding : job_.optimizers) binding.strategy->restore_local();
  }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  const Job& job_;
};

/// The batches without samples that do not count. One without any that do stays whole.
std::vector<Batch> valid_rows(const std::vector<Batch>& batches, const GlobalBatch& global_batch) {
  std::vector<Batch> out;
  for (size_t i = 0; i < batches.size(); ++i) {
    const int64_t valid = global_batch.micro_batches[i].valid();
    const bool whole = valid == 0 || valid >= batches[i].size();
    out.push_back(whole ? batches[i] : first_rows(batches[i], valid));
  }
  return out;
}

/// The sums of one batch: loss times weight, the weight, and the sums of every metric. Without
/// `valid` samples it is run for its collectives alone.
std::vector<double> sums_of(Job& job, const Batch& batch, int64_t valid) {
  std::vector<double> sums = {0, valid > 0 ? job.task->weight(batch) : 0};
  for (const auto& metric : job.metrics) {
    std::fill(metric->sums().begin(), metric->sums().end(), 0.0);
  }
  if (sums[1] <= 0 && communicates_in_passes(job)) {
    const AutocastScope casts = job.precision->autocast();
    job.task->evaluate(*job.model, batch);
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

/// Adds the sums of one global batch over all ranks in the order of its micro-batches, so that any
/// number of ranks gives the same bits.
void add_global_batch(const Job& job, const GlobalBatch& global_batch,
                      const std::vector<std::vector<double>>& own, std::vector<double>& total) {
  const size_t width = total.size();
  std::vector<double> all(static_cast<size_t>(global_batch.num_micro_batches) * width);
  for (size_t i = 0; i < own.size(); ++i) {
    const auto index = static_cast<size_t>(global_batch.micro_batches[i].micro_batch_index);
    std::copy(own[i].begin(), own[i].end(), all.begin() + static_cast<ptrdiff_t>(index * width));
  }
  sum_over_ranks(*job.mesh.data, all, "evaluation");
  sum_over_ranks(*job.mesh.pipeline, all, "evaluation");  // the stage with the head has them
  for (size_t i = 0; i < all.size(); ++i) total[i % width] += all[i];
}

/// The rows of metrics that are no sums.
class SampleRows {
 public:
  explicit SampleRows(const Job& job) : job_(job) {
    for (const auto& metric : job.metrics) {
      auto* samples = dynamic_cast<SampleMetric*>(metric.get());
      if (!samples) continue;
      samples->take_rows();  // of the last evaluation
      metrics_.push_back({samples, {}, {}});
    }
  }

  /// Takes the rows of an evaluated micro-batch.
  void take(int64_t micro_batch_index) {
    for (Rows& each : metrics_) {
      if (at::Tensor rows = each.metric->take_rows(); rows.defined()) {
        each.own.push_back({micro_batch_index, std::move(rows)});
      }
    }
  }

  /// Those of a global batch, over all ranks.
  void gather(int64_t num_micro_batches) {
    const bool has_head = job_.optimizers.front().strategy->has_head();
    for (Rows& each : metrics_) {
      std::vector<MicroBatchRows> stage;
      if (has_head) {
        stage.push_back({0, gather_micro_batches(*job_.mesh.data, each.own, num_micro_batches)});
      }
      each.all.push_back(gather_micro_batches(*job_.mesh.pipeline, stage, 1));
      each.own.clear();
    }
  }

  void finish() {
    for (Rows& each : metrics_) each.metric->set_rows(at::cat(each.all));
  }

 private:
  struct Rows {
    SampleMetric* metric;
    std::vector<MicroBatchRows> own;  ///< of this rank, of a global batch
    std::vector<at::Tensor> all;
  };

  const Job& job_;
  std::vector<Rows> metrics_;
};

/// What a pass of an evaluation needs.
class EvaluatedWeights {
 public:
  explicit EvaluatedWeights(Job& job) : average_(shared(job)), mode_(job), weights_(job) {}

 private:
  static const Job& shared(const Job& job) {
    for (const OptimizerBinding& binding : job.optimizers) binding.strategy->broadcast_buffers();
    return job;
  }

  c10::NoGradGuard no_grad_;
  AverageScope average_;
  EvalMode mode_;
  UnshardedScope weights_;
};

}  // namespace

void with_evaluated_weights(Job& job, const std::function<void()>& body) {
  const EvaluatedWeights weights(job);
  body();
}

std::optional<std::map<std::string, double>> evaluate(Job& job, const std::function<bool()>& stop) {
  const EvaluatedWeights weights(job);
  size_t width = 2;
  for (const auto& metric : job.metrics) width += metric->sums().size();
  std::vector<double> total(width);
  SampleRows rows(job);
  job.eval_loader->seek(0, 0);
  Activity shown("evaluating", "batches");
  int64_t batches_done = 0;
  while (job.eval_loader->has_next()) {
    if (stop && stop()) return std::nullopt;
    const GlobalBatch global_batch = job.eval_loader->next();
    const DeviceBatches batches(global_batch, job.device);
    const std::vector<Batch> list = valid_rows(batches.list(), global_batch);
    std::vector<std::vector<double>> own(list.size(), std::vector<double>(width));
    job.optimizers.front().strategy->run_forward(list, [&](size_t i) {
      own[i] = sums_of(job, list[i], global_batch.micro_batches[i].valid());
      rows.take(global_batch.micro_batches[i].micro_batch_index);
    });
    add_global_batch(job, global_batch, own, total);
    rows.gather(global_batch.num_micro_batches);
    shown.progress(++batches_done, job.eval_loader->steps_per_epoch());
  }
  if (total[1] <= 0) {
    throw DataError("every target of the eval data is masked", "check 'data.eval'");
  }
  rows.finish();
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
