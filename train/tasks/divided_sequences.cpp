#include "train/tasks/divided_sequences.h"

#include <c10/core/GradMode.h>

#include "core/api/targets.h"
#include "models/layers/context_parallel.h"

namespace accel {
namespace {

/// The batch with this rank's part of the targets.
Batch own_part(const ContextRanks* ranks, const Batch& batch) {
  Batch own = batch;
  own.targets = own_positions(ranks, batch.targets, 1, kIgnoredTarget);
  if (batch.host_targets.defined()) {
    own.host_targets = own_positions(ranks, batch.host_targets, 1, kIgnoredTarget);
  }
  return own;
}

double share_of(const PositionLoss& by, const Batch& own, const Batch& batch) {
  const double all = by.weight(batch);
  return all > 0 ? by.weight(own) / all : 0;
}

}  // namespace

const ContextRanks* context_ranks(const Model& model) {
  const auto* divided = dynamic_cast<const ContextParallel*>(&model);
  return divided ? divided->context_ranks() : nullptr;
}

at::Tensor equal_part(const Model& model, const at::Tensor& mean) {
  const ContextRanks* ranks = c10::GradMode::is_enabled() ? context_ranks(model) : nullptr;
  return ranks ? mean.div(ranks->size()) : mean;
}

at::Tensor divided_loss(const Model& model, const Batch& batch, const PositionLoss& by) {
  const ContextRanks* ranks = c10::GradMode::is_enabled() ? context_ranks(model) : nullptr;
  if (!ranks) return by.mean(batch);
  const Batch own = own_part(ranks, batch);
  return by.mean(own).mul(share_of(by, own, batch));
}

Evaluation divided_evaluation(const Model& model, const Batch& batch, const PositionLoss& by) {
  const ContextRanks* ranks = context_ranks(model);
  if (!ranks) return by.score(batch);
  const DividedEvaluation divided(ranks);
  const Batch own = own_part(ranks, batch);
  Evaluation result = by.score(own);
  result.output = ranks->gather_positions(result.output, batch.targets.size(1));
  result.loss = result.loss.mul(share_of(by, own, batch));
  ranks->sum(result.loss);
  return result;
}

}  // namespace accel
