#include "runner/loop/train_step.h"

#include <cmath>

#include "runner/dist/operations.h"
#include "runner/loop/to_batch.h"
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

/// What all ranks know of a step once they have told each other.
struct Shared {
  std::vector<double> weights;  ///< of all parts
  double total = 0;
  bool stop = false;
  double seconds = 0;
  std::vector<double> computed = {};  ///< by rank
};

/// Each rank writes the weights of its own parts; all that nobody else writes comes out exact.
Shared tell_each_other(Job& job, const Window& window, const std::vector<Batch>& batches,
                       const StepAsk& ask) {
  const auto parts = static_cast<size_t>(window.parts);
  const auto world = static_cast<size_t>(job.group->world());
  std::vector<double> numbers(parts + 2 + world);
  for (size_t i = 0; i < batches.size(); ++i) {
    numbers[static_cast<size_t>(window.micro_batches[i].part)] = job.task->weight(batches[i]);
  }
  numbers[parts] = ask.stop ? 1 : 0;
  numbers[parts + 1] = job.group->is_main() ? ask.seconds : 0;
  numbers[parts + 2 + static_cast<size_t>(job.group->rank())] = ask.computed;
  sum_over_ranks(*job.group, numbers, "weights");
  Shared shared;
  shared.computed.assign(numbers.end() - static_cast<ptrdiff_t>(world), numbers.end());
  shared.stop = numbers[parts] > 0;
  shared.seconds = numbers[parts + 1];
  numbers.resize(parts);
  for (const double weight : numbers) shared.total += weight;
  shared.weights = std::move(numbers);
  if (shared.total <= 0) {
    throw DataError("step " + std::to_string(ask.step) + ": nothing in the batch carries a loss",
                    "every target is masked: look at the data or raise 'train.batch'");
  }
  return shared;
}

/// Sums the parts' losses. One process alone adds as Accelerate's users do; several add in the
/// order of the parts, whoever made them.
double window_loss(const Job& job, const Window& window, const std::vector<at::Tensor>& losses) {
  const bool alone =
      job.group->world() == 1 && job.recipe.accelerator.reduction == Reduction::kBucketed;
  if (alone) {
    at::Tensor sum = losses.front();
    for (size_t i = 1; i < losses.size(); ++i) sum = sum.add(losses[i]);
    return sum.item().toDouble();
  }
  std::vector<double> parts(static_cast<size_t>(window.parts));
  for (size_t i = 0; i < losses.size(); ++i) {
    parts[static_cast<size_t>(window.micro_batches[i].part)] = losses[i].item().toDouble();
  }
  sum_over_ranks(*job.group, parts, "loss");
  double loss = 0;
  for (const double part : parts) loss += part;
  return loss;
}

/// The weights by which this rank's gradients are a mean: of the whole window, or of its own parts
/// where ranks share no gradients.
struct GradientShare {
  double total;
  size_t parts;
};

GradientShare share_of_gradients(const Job& job, const Window& window, const Shared& shared) {
  const GradientShare all = {shared.total, static_cast<size_t>(window.parts)};
  if (!job.strategy->is_local()) return all;
  GradientShare own = {0, window.micro_batches.size()};
  for (const HostBatch& batch : window.micro_batches) {
    own.total += shared.weights[static_cast<size_t>(batch.part)];
  }
  return own.total > 0 ? own : all;
}

WindowParts parts_of(const Job& job, const Window& window, int64_t step) {
  WindowParts parts{
      .step = step, .planned = job.batches.accumulation * job.batches.world, .own = {}};
  for (const HostBatch& batch : window.micro_batches) parts.own.push_back(batch.part);
  return parts;
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

/// Guards the passes of a careful step.
class MemoryCheck {
 public:
  MemoryCheck(Job& job, bool careful) : job_(job), careful_(careful) {}

  /// After a pass has failed, the others are left out.
  void pass(const std::function<void()>& work) {
    if (!careful_) return work();
    if (failed_) return;
    try {
      work();
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      failed_ = true;
    }
  }

  /// To be called by all ranks. Throws OutOfMemory when one has failed.
  void agree() const {
    if (!any_rank(*job_.group, failed_, "whether memory is short")) return;
    job_.optimizer->zero_grad();
    throw OutOfMemory(job_.batches.micro_batch);
  }

 private:
  Job& job_;
  bool careful_;
  bool failed_ = false;
};

}  // namespace

OutOfMemory::OutOfMemory(int64_t micro_batch)
    : Error(ExitCode::kMemory,
            "a micro-batch of " + std::to_string(micro_batch) +
                (micro_batch == 1 ? " sample" : " samples") + " does not fit into memory",
            "make the model or the samples smaller") {}

StepResult train_step(Job& job, const Window& window, const StepAsk& ask, Stopwatch& watch,
                      const std::function<void()>& before_update) {
  const std::vector<Batch> batches = to_batches(window, job.device);
  const Shared shared = tell_each_other(job, window, batches, ask);
  watch.lap(Phase::kSync);
  std::vector<at::Tensor> losses(batches.size());
  job.strategy->share_buffers();
  const GradientShare share = share_of_gradients(job, window, shared);
  const auto pass = [&](size_t i) {
    watch.lap(Phase::kSync);
    at::Tensor mean;
    {
      const AutocastScope casts = job.precision->autocast();
      mean = job.task->loss(*job.model, batches[i]);
    }
    const double weight = shared.weights[static_cast<size_t>(window.micro_batches[i].part)];
    const at::Tensor loss = part_of_window(mean, weight, share.total, share.parts);
    watch.lap(Phase::kForward);
    job.precision->scale(loss).backward();
    watch.lap(Phase::kBackward);
    losses[i] =
        part_of_window(mean.detach(), weight, shared.total, static_cast<size_t>(window.parts));
  };
  WindowParts parts = parts_of(job, window, ask.step);
  MemoryCheck memory(job, ask.careful);
  if (ask.careful) parts.before_sums = [&] { memory.agree(); };
  job.strategy->run(parts, [&](size_t i) { memory.pass([&] { pass(i); }); });
  StepResult result{
      window_loss(job, window, losses), 0, true, shared.stop, shared.seconds, shared.computed};
  watch.lap(Phase::kSync);
  check_loss(result.loss, ask.step);
  result.updated = job.precision->unscale(job.parameters);
  if (result.updated) {
    result.grad_norm = clip(job);
    check_gradients(job, result.grad_norm, ask.step);
    if (before_update) {
      watch.lap(Phase::kOptimizer);
      before_update();
      watch.lap(Phase::kSave);
    }
    job.optimizer->step();
    watch.lap(Phase::kOptimizer);
    job.strategy->updated(ask.step);
    watch.lap(Phase::kSync);
  } else {
    check_scale(job.precision->loss_scale(), ask.step);
  }
  job.precision->update();
  job.optimizer->zero_grad();
  watch.lap(Phase::kOptimizer);
  return result;
}

}  // namespace accel
