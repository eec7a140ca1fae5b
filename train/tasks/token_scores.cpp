#include "train/tasks/token_scores.h"

#include "core/api/targets.h"
#include "core/base/error.h"
#include "kernels/cross_entropy.h"

namespace accel {

double counted_targets(const Batch& batch) {
  const at::Tensor counts = batch.readable_targets().ne(kIgnoredTarget);
  return static_cast<double>(counts.sum().item<int64_t>());
}

namespace {

/// F32 [batch, positions, choices].
at::Tensor token_scores(const char* task, Model& model, const Batch& batch,
                        const std::string& hint) {
  const at::Tensor scores = model.forward_batch(batch).to(at::kFloat);
  if (scores.dim() == 3 && scores.size(1) == batch.targets.size(1)) return scores;
  throw Error(ExitCode::kRecipe,
              std::string("the task '") + task +
                  "' needs logits for every token, but the model's output is " +
                  to_string(Shape(scores.sizes().begin(), scores.sizes().end())),
              hint);
}

/// `targets` are the batch's, or labels in their place.
at::Tensor mean_token_loss(const at::Tensor& scores, const Batch& batch,
                           const at::Tensor& targets) {
  // The mean over no tokens is NaN, which must not reach the weights.
  if (counted_targets(batch) == 0) return scores.sum().mul(0);
  return cross_entropy(scores.flatten(0, 1), targets.flatten(), kIgnoredTarget);
}

}  // namespace

PositionLoss token_loss(const char* task, Model& model, const std::string& hint) {
  const auto scores = [task, &model, hint](const Batch& batch) {
    return token_scores(task, model, batch, hint);
  };
  return {
      &counted_targets,
      [scores](const Batch& batch) { return mean_token_loss(scores(batch), batch, batch.targets); },
      [scores](const Batch& batch) {
        const at::Tensor all = scores(batch);
        return Evaluation{mean_token_loss(all, batch, batch.targets), all.argmax(-1)};
      }};
}

at::Tensor sampled_token_loss(const char* task, Model& model, const std::string& hint,
                              const Batch& batch, const LabelDraws& draws) {
  const at::Tensor scores = token_scores(task, model, batch, hint);
  const at::Tensor targets = batch.targets.flatten();
  const at::Tensor uniform = draws.uniform(batch.targets.size(1), targets);
  return mean_token_loss(scores, batch, sample_labels(scores.flatten(0, 1), targets, uniform));
}

}  // namespace accel
