#include "runner/loop/train_step.h"

#include <cmath>

#include "runner/optim/clip.h"

namespace accel {
namespace {

/// The micro-batch's part of the window's mean. Equal parts are divided by their number, which is
/// the arithmetic of Accelerate's backward(), to the last bit.
at::Tensor part_of_window(const at::Tensor& mean, double weight, double total, size_t parts) {
  if (parts == 1) return mean;
  const auto n = static_cast<double>(parts);
  return weight * n == total ? mean.div(n) : mean.mul(weight / total);
}

double window_weight(const Job& job, const std::vector<Batch>& window, int64_t step) {
  double total = 0;
  for (const Batch& batch : window) total += job.task->weight(batch);
  if (total <= 0) {
    throw DataError("step " + std::to_string(step) + ": nothing in the batch carries a loss",
                    "every target is masked: look at the data or raise 'train.batch'");
  }
  return total;
}

void check_loss(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw DivergedError("step " + std::to_string(step) + ": the loss is " + show_number(loss) +
                          "; the weights are those of the step before",
                      "lower 'optimizer.lr', set 'train.max_grad_norm' or look at the data");
}

void check_gradients(const Job& job, double norm, int64_t step) {
  if (std::isfinite(norm)) return;
  const auto bad = first_non_finite_gradient(job.parameters);
  throw DivergedError("step " + std::to_string(step) + ": " +
                          (bad ? "the gradient of '" + *bad + "' is not finite"
                               : std::string("the gradients' norm is not finite")) +
                          "; the weights are those of the step before",
                      "lower 'optimizer.lr', set 'train.max_grad_norm' or look at the data");
}

/// A scale this small means that no scale helps: the gradients themselves are not finite.
constexpr double kLeastScale = 1e-4;

void check_scale(double scale, int64_t step) {
  if (scale >= kLeastScale) return;
  throw DivergedError("step " + std::to_string(step) +
                          ": gradients overflow in fp16 at a loss scale of " + show_number(scale) +
                          " still",
                      "use mixed_precision bf16, lower 'optimizer.lr' or look at the data");
}

/// Clips as the recipe says. Returns the norm before.
double clip(Job& job) {
  const TrainSection& train = job.recipe.train;
  const at::Tensor norm = train.max_grad_norm
                              ? clip_grad_norm_(job.parameters, *train.max_grad_norm)
                              : gradient_norm(job.parameters);
  if (train.max_grad_value) clip_grad_value_(job.parameters, *train.max_grad_value);
  return norm.item().toDouble();
}

}  // namespace

StepResult train_step(Job& job, const std::vector<Batch>& window, int64_t step, Stopwatch& watch,
                      const std::function<void()>& before_update) {
  const double total = window_weight(job, window, step);
  at::Tensor sum;
  for (const Batch& batch : window) {
    at::Tensor loss;
    {
      const AutocastScope casts = job.precision->autocast();
      loss = job.task->loss(*job.model, batch);
    }
    loss = part_of_window(loss, job.task->weight(batch), total, window.size());
    watch.lap(Phase::kForward);
    job.precision->scale(loss).backward();
    watch.lap(Phase::kBackward);
    sum = sum.defined() ? sum.add(loss.detach()) : loss.detach();
  }
  StepResult result{sum.item().toDouble(), 0, true};
  check_loss(result.loss, step);
  result.updated = job.precision->unscale(job.parameters);
  if (result.updated) {
    result.grad_norm = clip(job);
    check_gradients(job, result.grad_norm, step);
    if (before_update) {
      watch.lap(Phase::kOptimizer);
      before_update();
      watch.lap(Phase::kSave);
    }
    job.optimizer->step();
  } else {
    check_scale(job.precision->loss_scale(), step);
  }
  job.precision->update();
  job.optimizer->zero_grad();
  watch.lap(Phase::kOptimizer);
  return result;
}

}  // namespace accel
