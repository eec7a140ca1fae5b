#include "train/step/train_step_context.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/api/auxiliary_loss.h"
#include "core/base/library_pages.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "models/layers/sampled_labels.h"
#include "parallel/gradients.h"
#include "parallel/operations.h"
#include "train/job/step_graph.h"
#include "train/optim/hessian_estimate.h"
#include "train/step/pass_snapshot.h"
#include "train/step/step_readback.h"
#include "train/step/update.h"

namespace accel {
namespace {

constexpr auto kDivergedHint = "lower 'optimizer.lr', set 'train.max_grad_norm' or check the data";

/// A micro-batch's share of the global batch's mean. Equal shares are divided by their number,
/// which is the arithmetic of Accelerate's backward(), to the last bit.
at::Tensor share_of_mean(const at::Tensor& mean, double weight, double total, int64_t count) {
  if (count == 1) return mean;
  const auto n = static_cast<double>(count);
  return weight * n == total ? mean.div(n) : mean.mul(weight / total);
}

/// While it lives, only one optimizer's parameters require gradients.
class RequiresGradScope {
 public:
  RequiresGradScope(const Job& job, const OptimizerBinding& binding)
      : job_(job), binding_(binding) {
    require(false);
  }
  ~RequiresGradScope() { require(true); }
  RequiresGradScope(const RequiresGradScope&) = delete;
  RequiresGradScope& operator=(const RequiresGradScope&) = delete;

 private:
  void require(bool gradients) {
    for (const OptimizerBinding& other : job_.optimizers) {
      if (&other == &binding_) continue;
      for (const Parameter& item : other.leaves) item.local.set_requires_grad(gradients);
    }
  }

  const Job& job_;
  const OptimizerBinding& binding_;
};

/// Passes that do not count, such as those of a rank without samples, which runs them for their
/// collectives: buffers and random state stay. Also where a pass ends, by an exception, with a
/// stage of a pipeline.
class IdlePass {
 public:
  IdlePass(const Job& job, bool is_idle) : job_(job) {
    if (is_idle) before_.emplace(job);
  }
  ~IdlePass() {
    if (before_) before_->restore(job_);
  }
  IdlePass(const IdlePass&) = delete;
  IdlePass& operator=(const IdlePass&) = delete;

 private:
  const Job& job_;
  std::optional<PassSnapshot> before_;
};

/// Charges the time of a scope to a phase.
class LapAtEnd {
 public:
  LapAtEnd(Stopwatch& watch, Phase phase) : watch_(watch), phase_(phase) {}
  ~LapAtEnd() { watch_.lap(phase_); }
  LapAtEnd(const LapAtEnd&) = delete;
  LapAtEnd& operator=(const LapAtEnd&) = delete;

 private:
  Stopwatch& watch_;
  Phase phase_;
};

/// A scale this small means that no scale helps: the gradients themselves are not finite.
constexpr double kLeastScale = 1e-4;

/// The task's loss and the models' own.
at::Tensor loss_with_auxiliary(const std::vector<Model*>& models, const Batch& batch,
                               const BatchLoss& loss) {
  std::vector<AuxiliaryLoss*> auxiliary;
  for (Model* model : models) {
    if (auto* own = dynamic_cast<AuxiliaryLoss*>(model)) auxiliary.push_back(own);
  }
  for (AuxiliaryLoss* model : auxiliary) model->begin_batch(batch);
  at::Tensor mean = loss(batch);
  for (AuxiliaryLoss* model : auxiliary) {
    const at::Tensor own = model->auxiliary_loss();
    if (own.defined()) mean = mean.add(own);
  }
  return mean;
}

/// In the order of a rank's micro-batches.
at::Tensor sum_of(const PassLosses& losses) {
  at::Tensor sum = losses.front();
  for (size_t i = 1; i < losses.size(); ++i) sum = sum.add(losses[i]);
  return sum;
}

OptimizerBinding& binding_named(Job& job, const std::string& name) {
  const auto found =
      std::find_if(job.optimizers.begin(), job.optimizers.end(),
                   [&](const OptimizerBinding& binding) { return binding.name == name; });
  if (found != job.optimizers.end()) return *found;
  throw std::logic_error(text("the task '{}' has no optimizer '{}'", job.recipe.task.type, name));
}

}  // namespace

double TrainStepContext::update(const std::string& optimizer, const BatchLoss& loss) {
  OptimizerBinding& binding = binding_named(job_, optimizer);
  estimate_hessian(binding);
  return update_and_read(binding, accumulate(binding, loss, job_.step_graph.get()));
}

double TrainStepContext::sole_update(const BatchLoss& loss) {
  StepReadback* const readback = inputs_.header.readback;
  if (!readback || repeated()) return update(kRecipeOptimizer, loss);
  OptimizerBinding& binding = binding_named(job_, kRecipeOptimizer);
  estimate_hessian(binding);
  const PassLosses losses = accumulate(binding, loss, job_.step_graph.get());
  apply(binding, [&](const at::Tensor& norm) { readback->launch(sum_of(losses), norm); });
  pending_ = true;
  return std::numeric_limits<double>::quiet_NaN();
}

double TrainStepContext::update_and_read(OptimizerBinding& binding, const PassLosses& losses) {
  double mean = 0;
  const auto read_loss = [&] {
    mean = repeated() ? repeated()->loss : sum_losses(binding, losses);
    inputs_.watch.lap(Phase::kSync);
    check_loss(mean);
  };
  const bool on_cpu = job_.device.is_cpu();
  if (on_cpu) read_loss();
  apply(binding, [&](const at::Tensor& norm) {
    double value = norm.defined() ? norm.item().toDouble() : 0;
    if (repeated()) value = repeated()->grad_norm;
    if (!on_cpu) read_loss();
    check_gradients(binding, value);
    grad_norm_ = std::hypot(grad_norm_, value);
  });
  return mean;
}

const StepNumbers* TrainStepContext::repeated() const {
  return inputs_.header.readback ? inputs_.header.readback->diverged() : nullptr;
}

/// The passes of an update.
class TrainStepContext::Passes final : public MicroBatchPasses {
 public:
  /// Guards the passes of a careful step: after one has run out of memory, the others are skipped.
  class MemoryCheck {
   public:
    explicit MemoryCheck(bool careful) : careful_(careful) {}

    template <class Pass>
    void run(const Pass& pass) {
      if (!careful_) return pass();
      if (failed_) return;
      try {
        pass();
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

  /// `graph` null: passes are launched one by one.
  Passes(TrainStepContext& step, const Strategy& strategy, const BatchLoss& loss, StepGraph* graph)
      : losses(step.batches_.size()),
        memory(step.inputs_.header.careful),
        step_(step),
        loss_(loss),
        graph_(graph),
        share_(share_of_gradients(strategy, step.inputs_.global_batch, step.weights_)) {}

  size_t count() const override { return step_.batches_.size(); }
  const Batch& batch(size_t i) const override { return of_graph_ ? *of_graph_ : step_.batches_[i]; }

  void run(size_t i) override {
    const bool is_recorded = graph_ && !step_.inputs_.header.careful && graph_->takes(batch(i));
    const auto pass = [&] {
      if (is_recorded) return run_graph(*graph_, i);
      const at::Tensor scaled = forward(i);
      backward([&] { scaled.backward(); });
    };
    // Blocks may be computed again in the backward pass.
    const IdlePass idle(step_.job_, step_.is_idle(step_.inputs_.global_batch.micro_batches[i]));
    memory.run(pass);
  }

  at::Tensor forward(size_t i) override {
    step_.inputs_.watch.lap(Phase::kSync);
    // Elsewhere run() has it: the backward pass needs the buffers of the forward pass.
    const bool has_stages = step_.job_.recipe.accelerator.parallelism.pp > 1;
    const IdlePass idle(step_.job_,
                        has_stages && step_.is_idle(step_.inputs_.global_batch.micro_batches[i]));
    const LapAtEnd lap(step_.inputs_.watch, Phase::kForward);
    at::Tensor mean;
    {
      const AutocastScope casts = step_.job_.precision->autocast();
      mean = loss_with_auxiliary(step_.job_.trainable_models, batch(i), loss_);
    }
    const GlobalBatch& global_batch = step_.inputs_.global_batch;
    const double weight = step_.weights_.of(global_batch.micro_batches[i].micro_batch_index);
    losses[i] =
        share_of_mean(mean.detach(), weight, step_.weights_.total, global_batch.num_micro_batches);
    return step_.job_.precision->scale(share_of_mean(mean, weight, share_.total, share_.count));
  }

  void backward(const std::function<void()>& pass) override {
    if (step_.inputs_.header.is_first) {
      release_library_pages(LibraryPages::kReadOnly);  // of the first forward pass
    }
    step_.inputs_.watch.lap(Phase::kSync);
    const LapAtEnd lap(step_.inputs_.watch, Phase::kBackward);
    pass();
  }

  PassLosses losses;
  MemoryCheck memory;

 private:
  void run_graph(StepGraph& graph, size_t i) {
    step_.inputs_.watch.lap(Phase::kSync);
    losses[i] = graph.run(batch(i), [&](const Batch& of_graph) {
      of_graph_ = &of_graph;
      const at::Tensor scaled = forward(i);
      backward([&] { scaled.backward(); });
      return losses[i];
    });
    of_graph_ = nullptr;
    step_.inputs_.watch.lap(Phase::kForward);
  }

  /// The weights by which this rank's gradients are a mean: of the whole global batch, or of this
  /// rank's micro-batches where ranks share no gradients.
  struct GradientShare {
    double total;
    int64_t count;
  };

  static GradientShare share_of_gradients(const Strategy& strategy, const GlobalBatch& global_batch,
                                          const MicroBatchWeights& weights) {
    const GradientShare all = {weights.total, global_batch.num_micro_batches};
    if (strategy.syncs_gradients()) return all;
    GradientShare own = {0, static_cast<int64_t>(global_batch.micro_batches.size())};
    for (const HostBatch& batch : global_batch.micro_batches) {
      own.total += weights.of(batch.micro_batch_index);
    }
    return own.total > 0 ? own : all;
  }

  TrainStepContext& step_;
  const BatchLoss& loss_;
  StepGraph* graph_;
  GradientShare share_;
  const Batch* of_graph_ = nullptr;  ///< the batch of the pass that a graph records
};

PassLosses TrainStepContext::accumulate(OptimizerBinding& binding, const BatchLoss& loss,
                                        StepGraph* graph) {
  Strategy& strategy = *binding.strategy;
  const UnshardedScope weights(job_);  // after an update of another optimizer
  Passes passes(*this, strategy, loss, graph);
  const RequiresGradScope only(job_, binding);
  strategy.begin(layout());
  strategy.run_passes(passes);
  if (inputs_.header.careful &&
      any_rank(*job_.mesh.world, passes.memory.failed(), "whether memory is short")) {
    throw_out_of_memory(binding);
  }
  strategy.finish();
  return std::move(passes.losses);
}

void TrainStepContext::estimate_hessian(OptimizerBinding& binding) {
  auto* optimizer = dynamic_cast<UsesHessianEstimate*>(binding.optimizer);
  if (!optimizer || !optimizer->wants_estimate(step())) return;
  const auto& task = dynamic_cast<const SamplesLabels&>(*job_.task);  // as build_job() checks
  const auto loss = [&](const Batch& batch) {
    const LabelDraws draws(static_cast<uint64_t>(job_.recipe.seed), step(), batch.ids);
    return task.sampled_loss(*job_.model, batch, draws);
  };
  const IdlePass unchanged(job_, true);
  accumulate(binding, loss, nullptr);
  check_gradients(binding, binding.strategy->gradient_norm(binding.parameters).item().toDouble());
  inputs_.watch.lap(Phase::kOptimizer);
  if (inputs_.before_update) inputs_.before_update();
  inputs_.watch.lap(Phase::kSave);
  optimizer->update_hessian(step(), weights_.total);
  binding.optimizer->zero_grad();
  inputs_.watch.lap(Phase::kOptimizer);
}

void TrainStepContext::apply(OptimizerBinding& binding,
                             c10::function_ref<void(const at::Tensor& norm)> check) {
  const TrainSection& train = job_.recipe.train;
  const auto before_update = [&](const at::Tensor& norm) {
    check(norm);
    if (!inputs_.before_update) return;
    inputs_.watch.lap(Phase::kOptimizer);
    inputs_.before_update();
    inputs_.watch.lap(Phase::kSave);
  };
  const bool updated = apply_gradients(binding, *job_.precision,
                                       {train.max_grad_norm, train.max_grad_value}, before_update);
  inputs_.watch.lap(Phase::kOptimizer);
  if (updated) {
    binding.strategy->updated(step());
    inputs_.watch.lap(Phase::kSync);
    done_.push_back(&binding);
  } else {
    check({});
    check_scale();
    updated_ = false;
  }
  reset_gradients(binding, *job_.precision);
  balance_experts(binding);
  inputs_.watch.lap(Phase::kOptimizer);
}

void TrainStepContext::balance_experts(const OptimizerBinding& binding) {
  auto* model = dynamic_cast<ExpertBalance*>(job_.model.get());
  if (!model || &binding != &job_.optimizers.front()) return;
  const auto sum = [&](const at::Tensor& loads) {
    job_.mesh.gradients->all_reduce(loads, ReduceOp::kSum, "loads of experts");
    job_.mesh.pipeline->all_reduce(loads, ReduceOp::kSum, "loads of experts");
  };
  for (const auto& [name, load] : model->balance_experts(sum)) log(name, load);
}

bool TrainStepContext::is_idle(const HostBatch& batch) const {
  return fills_idle_ranks(job_) && batch.valid() == 0;
}

StepLayout TrainStepContext::layout() const {
  StepLayout layout{.step = step(),
                    .num_micro_batches = job_.batches.accumulation * job_.batches.world,
                    .own = {},
                    .overlap = !inputs_.header.careful};
  for (const HostBatch& batch : inputs_.global_batch.micro_batches) {
    layout.own.push_back(is_idle(batch) ? kIdleMicroBatch : batch.micro_batch_index);
  }
  return layout;
}

double TrainStepContext::sum_losses(const OptimizerBinding& binding,
                                    const PassLosses& losses) const {
  double loss = binding.strategy->has_head() ? sum_losses_of_replicas(losses) : 0;
  sum_over_ranks(*job_.mesh.pipeline, {&loss, 1}, "loss");
  sum_over_ranks(*job_.mesh.context, {&loss, 1}, "loss");
  return loss;
}

/// One process adds as Accelerate's users do; several add in the order of the micro-batches, on
/// whichever rank they ran.
double TrainStepContext::sum_losses_of_replicas(const PassLosses& losses) const {
  const bool alone =
      job_.batches.world == 1 && job_.recipe.accelerator.reduction == Reduction::kBucketed;
  if (alone) return sum_of(losses).item().toDouble();
  const GlobalBatch& global_batch = inputs_.global_batch;
  std::vector<double> shares(static_cast<size_t>(global_batch.num_micro_batches));
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto index = static_cast<size_t>(global_batch.micro_batches[i].micro_batch_index);
    shares[index] = losses[i].item().toDouble();
  }
  sum_over_ranks(*job_.mesh.data, shares, "loss");
  double loss = 0;
  for (const double share : shares) loss += share;
  return loss;
}

at::Tensor TrainStepContext::gather_for_metrics(const std::vector<at::Tensor>& rows) {
  const std::vector<HostBatch>& own = inputs_.global_batch.micro_batches;
  if (rows.size() != own.size()) {
    throw std::logic_error(text("gather_for_metrics() needs rows of {} micro-batches, not {}",
                                own.size(), rows.size()));
  }
  std::vector<MicroBatchRows> gathered;
  for (size_t i = 0; i < own.size(); ++i) {
    gathered.push_back({own[i].micro_batch_index, rows[i].detach().narrow(0, 0, own[i].valid())});
  }
  return gather_micro_batches(*job_.mesh.data, gathered, inputs_.global_batch.num_micro_batches);
}

void TrainStepContext::throw_out_of_memory(const OptimizerBinding& binding) const {
  binding.optimizer->zero_grad();
  OutOfMemory error(job_.batches.micro_batch);
  if (done_.empty()) throw error;
  // The step cannot be retried: other weights are already updated.
  throw Error(ExitCode::kMemory, error.what(), "set a smaller 'train.micro_batch'");
}

std::string TrainStepContext::weights_state() const {
  if (done_.empty()) return "; the weights are those of the step before";
  std::vector<std::string> names;
  for (const OptimizerBinding* binding : done_) names.push_back(binding->name);
  return text(
      "; {} is already updated in this step, the other weights are those of the step before",
      quoted_list(names));
}

void TrainStepContext::check_loss(double loss) const {
  if (std::isfinite(loss)) return;
  throw DivergedError(text("step {}: the loss is {}{}", step(), show_number(loss), weights_state()),
                      kDivergedHint);
}

void TrainStepContext::check_gradients(const OptimizerBinding& binding, double norm) const {
  if (std::isfinite(norm)) return;
  std::optional<std::string> bad;
  binding.strategy->visit_gradients(binding.parameters, [&](std::span<const Parameter> some) {
    if (!bad) bad = first_non_finite_gradient(some);
  });
  throw DivergedError(
      bad ? text("step {}: the gradient of '{}' is not finite{}", step(), *bad, weights_state())
          : text("step {}: the norm of the gradients is not finite{}", step(), weights_state()),
      kDivergedHint);
}

void TrainStepContext::check_scale() const {
  const double scale = job_.precision->loss_scale();
  if (scale >= kLeastScale) return;
  throw DivergedError(text("step {}: gradients overflow in fp16 even at a loss scale of {}", step(),
                           show_number(scale)),
                      "use mixed_precision bf16, lower 'optimizer.lr' or check the data");
}

}  // namespace accel
