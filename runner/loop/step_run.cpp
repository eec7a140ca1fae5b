#include "runner/loop/step_run.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "runner/dist/operations.h"
#include "runner/optim/clip.h"

namespace accel {
namespace {

constexpr auto kDivergedHint =
    "lower 'optimizer.lr', set 'train.max_grad_norm' or look at the data";

/// The micro-batch's part of the window's mean. Equal parts are divided by their number, which is
/// the arithmetic of Accelerate's backward(), to the last bit.
at::Tensor part_of_window(const at::Tensor& mean, double weight, double total, size_t parts) {
  if (parts == 1) return mean;
  const auto n = static_cast<double>(parts);
  return weight * n == total ? mean.div(n) : mean.mul(weight / total);
}

/// The weights by which this rank's gradients are a mean: of the whole window, or of its own parts
/// where ranks share no gradients.
struct GradientShare {
  double total;
  size_t parts;
};

GradientShare share_of_gradients(const Job& job, const Window& window, const SharedWindow& shared) {
  const GradientShare all = {shared.total, static_cast<size_t>(window.parts)};
  if (!is_local(job)) return all;
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

/// While it lives, only one part's parameters ask for gradients.
class OnlyTrains {
 public:
  OnlyTrains(const Job& job, const TrainedPart& part) : job_(job), part_(part) { ask(false); }
  ~OnlyTrains() { ask(true); }
  OnlyTrains(const OnlyTrains&) = delete;
  OnlyTrains& operator=(const OnlyTrains&) = delete;

 private:
  void ask(bool gradients) {
    for (const TrainedPart& other : job_.trained) {
      if (&other == &part_) continue;
      for (const NamedTensor& item : other.parameters) item.tensor.set_requires_grad(gradients);
    }
  }

  const Job& job_;
  const TrainedPart& part_;
};

/// Guards the passes of a careful step: after one has failed, the others are left out.
class MemoryCheck {
 public:
  explicit MemoryCheck(bool careful) : careful_(careful) {}

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
  bool failed() const { return failed_; }

 private:
  bool careful_;
  bool failed_ = false;
};

/// A scale this small means that no scale helps: the gradients themselves are not finite.
constexpr double kLeastScale = 1e-4;

TrainedPart& part_named(Job& job, const std::string& name) {
  const auto found = std::find_if(job.trained.begin(), job.trained.end(),
                                  [&](const TrainedPart& part) { return part.name == name; });
  if (found != job.trained.end()) return *found;
  throw std::logic_error("the task '" + job.recipe.task.type + "' has no optimizer '" + name + "'");
}

}  // namespace

double StepRun::update(const std::string& optimizer, const BatchLoss& loss) {
  TrainedPart& part = part_named(job_, optimizer);
  const double mean = window_loss(run_passes(part, loss));
  work_.watch.lap(Phase::kSync);
  check_loss(mean);
  apply(part);
  return mean;
}

PassLosses StepRun::run_passes(TrainedPart& part, const BatchLoss& loss) {
  const Window& window = work_.window;
  const GradientShare share = share_of_gradients(job_, window, shared_);
  PassLosses losses(batches_.size());
  const auto pass = [&](size_t i) {
    work_.watch.lap(Phase::kSync);
    at::Tensor mean;
    {
      const AutocastScope casts = job_.precision->autocast();
      mean = loss(batches_[i]);
    }
    const double weight = shared_.weights[static_cast<size_t>(window.micro_batches[i].part)];
    const at::Tensor of_window = part_of_window(mean, weight, share.total, share.parts);
    work_.watch.lap(Phase::kForward);
    job_.precision->scale(of_window).backward();
    work_.watch.lap(Phase::kBackward);
    losses[i] =
        part_of_window(mean.detach(), weight, shared_.total, static_cast<size_t>(window.parts));
  };
  WindowParts parts = parts_of(job_, window, step());
  MemoryCheck memory(work_.ask.careful);
  if (work_.ask.careful) {
    parts.before_sums = [&] {
      if (any_rank(*job_.group, memory.failed(), "whether memory is short")) fail_for_memory(part);
    };
  }
  const OnlyTrains only(job_, part);
  part.strategy->run(parts, [&](size_t i) { memory.pass([&] { pass(i); }); });
  return losses;
}

void StepRun::apply(TrainedPart& part) {
  const bool finite = job_.precision->unscale(part.parameters);
  if (finite) {
    const double norm = clip(part);
    check_gradients(part, norm);
    grad_norm_ = std::hypot(grad_norm_, norm);
    if (work_.before_update) {
      work_.watch.lap(Phase::kOptimizer);
      work_.before_update();
      work_.watch.lap(Phase::kSave);
    }
    part.optimizer->step();
    work_.watch.lap(Phase::kOptimizer);
    part.strategy->updated(step());
    work_.watch.lap(Phase::kSync);
    done_.push_back(&part);
  } else {
    check_scale();
    updated_ = false;
  }
  job_.precision->update();
  part.optimizer->zero_grad();
  work_.watch.lap(Phase::kOptimizer);
}

/// Sums the parts' losses. One process alone adds as Accelerate's users do; several add in the
/// order of the parts, whoever made them.
double StepRun::window_loss(const PassLosses& losses) const {
  const bool alone =
      job_.group->world() == 1 && job_.recipe.accelerator.reduction == Reduction::kBucketed;
  if (alone) {
    at::Tensor sum = losses.front();
    for (size_t i = 1; i < losses.size(); ++i) sum = sum.add(losses[i]);
    return sum.item().toDouble();
  }
  std::vector<double> parts(static_cast<size_t>(work_.window.parts));
  for (size_t i = 0; i < losses.size(); ++i) {
    parts[static_cast<size_t>(work_.window.micro_batches[i].part)] = losses[i].item().toDouble();
  }
  sum_over_ranks(*job_.group, parts, "loss");
  double loss = 0;
  for (const double part : parts) loss += part;
  return loss;
}

double StepRun::clip(const TrainedPart& part) const {
  const TrainSection& train = job_.recipe.train;
  const at::Tensor norm = train.max_grad_norm
                              ? clip_grad_norm_(part.parameters, *train.max_grad_norm)
                              : gradient_norm(part.parameters);
  if (train.max_grad_value) clip_grad_value_(part.parameters, *train.max_grad_value);
  return norm.item().toDouble();
}

at::Tensor StepRun::gather_for_metrics(const std::vector<at::Tensor>& rows) {
  const std::vector<HostBatch>& own = work_.window.micro_batches;
  if (rows.size() != own.size()) {
    throw std::logic_error("gather_for_metrics() wants rows of " + std::to_string(own.size()) +
                           " micro-batches, not of " + std::to_string(rows.size()));
  }
  std::vector<RowsOfPart> parts;
  for (size_t i = 0; i < own.size(); ++i) {
    parts.push_back({own[i].part, rows[i].detach().narrow(0, 0, own[i].valid())});
  }
  return gather_parts(*job_.group, parts, work_.window.parts);
}

void StepRun::fail_for_memory(const TrainedPart& part) const {
  part.optimizer->zero_grad();
  OutOfMemory error(job_.batches.micro_batch);
  if (done_.empty()) throw error;
  // The step cannot be made again: other weights are this step's already.
  throw Error(ExitCode::kMemory, error.what(), "set 'train.micro_batch' to less");
}

std::string StepRun::weights_now() const {
  if (done_.empty()) return "; the weights are those of the step before";
  std::string names;
  for (const TrainedPart* part : done_) {
    names += (names.empty() ? "'" : ", '") + part->name + "'";
  }
  return "; " + names + " has made its update of this step, the other weights are those of the " +
         "step before";
}

void StepRun::check_loss(double loss) const {
  if (std::isfinite(loss)) return;
  throw DivergedError(
      "step " + std::to_string(step()) + ": the loss is " + show_number(loss) + weights_now(),
      kDivergedHint);
}

void StepRun::check_gradients(const TrainedPart& part, double norm) const {
  if (std::isfinite(norm)) return;
  const auto bad = first_non_finite_gradient(part.parameters);
  throw DivergedError("step " + std::to_string(step()) + ": " +
                          (bad ? "the gradient of '" + *bad + "' is not finite"
                               : std::string("the gradients' norm is not finite")) +
                          weights_now(),
                      kDivergedHint);
}

void StepRun::check_scale() const {
  const double scale = job_.precision->loss_scale();
  if (scale >= kLeastScale) return;
  throw DivergedError("step " + std::to_string(step()) +
                          ": gradients overflow in fp16 at a loss scale of " + show_number(scale) +
                          " still",
                      "use mixed_precision bf16, lower 'optimizer.lr' or look at the data");
}

}  // namespace accel
