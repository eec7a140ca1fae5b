#include "train/job/step_graph.h"

#include <exception>
#include <string>

#include "core/api/auxiliary_loss.h"
#include "core/api/expert_parallel.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "train/job/job.h"
#include "train/tasks/model_needs.h"

namespace accel {
namespace {

constexpr int64_t kPreparing = 2;  // passes before the recorded one

at::Tensor copy_of(const at::Tensor& x) {
  return x.defined() ? x.detach().clone() : x;
}

bool is_shaped_as(const at::Tensor& x, const at::Tensor& other) {
  if (!x.defined() || !other.defined()) return x.defined() == other.defined();
  return x.sizes() == other.sizes() && x.scalar_type() == other.scalar_type();
}

bool is_shaped_as(const Batch& batch, const Batch& other) {
  return is_shaped_as(batch.inputs, other.inputs) && is_shaped_as(batch.targets, other.targets) &&
         is_shaped_as(batch.lengths, other.lengths) && is_shaped_as(batch.segments, other.segments);
}

void copy_into(const at::Tensor& to, const at::Tensor& from) {
  if (to.defined()) to.copy_(from, /*non_blocking=*/true);
}

/// What in the job changes passes from step to step, or is not part of a graph; "" for nothing.
std::string unsupported(const Job& job) {
  const AcceleratorSection& accelerator = job.recipe.accelerator;
  if (job.num_ranks > 1) return "several ranks";
  if (job.batches.accumulation > 1) return "gradient accumulation";
  if (accelerator.mixed_precision == MixedPrecision::kFp8) return "mixed_precision fp8";
  if (accelerator.mixed_precision == MixedPrecision::kFp16) return "mixed_precision fp16";
  if (job.recipe.train.activation_checkpointing != ActivationCheckpointing::kNone) {
    return "activation checkpointing";
  }
  if (job.swapper) return "offload to the disk";
  if (job.optimizers.size() > 1) return "several optimizers";
  const auto* fixed = dynamic_cast<const HasFixedPasses*>(job.task.get());
  if (!fixed || !fixed->has_fixed_passes()) {
    return text("the task '{}' with these options", job.recipe.task.type);
  }
  for (Model* model : job.trainable_models) {
    const auto* experts = dynamic_cast<const ExpertParallel*>(model);
    if (experts ? experts->num_experts() > 0 : dynamic_cast<AuxiliaryLoss*>(model) != nullptr) {
      return "a model with experts or another auxiliary loss";
    }
  }
  return "";
}

}  // namespace

bool StepGraph::takes(const Batch& batch) {
  if (++passes_ <= kPreparing) return false;
  if (graph_ && !is_shaped_as(batch, batch_)) return false;
  for (const Parameter& leaf : leaves_) {
    if (leaf.local.grad().defined()) return false;
  }
  return true;
}

at::Tensor StepGraph::run(const Batch& batch, const Pass& pass) {
  if (!graph_) {
    batch_ = {copy_of(batch.inputs),  copy_of(batch.targets),  batch.ids,
              copy_of(batch.lengths), copy_of(batch.segments), batch.host_targets};
    record(pass);
  } else {
    copy_into(batch_.inputs, batch.inputs);
    copy_into(batch_.targets, batch.targets);
    copy_into(batch_.lengths, batch.lengths);
    copy_into(batch_.segments, batch.segments);
    batch_.ids = batch.ids;
    batch_.host_targets = batch.host_targets;
  }
  graph_->launch([&] { loss_ = pass(batch_); });
  give_gradients();
  return loss_;
}

void StepGraph::record(const Pass& pass) {
  graph_ = make_();
  try {
    graph_->record([&] { loss_ = pass(batch_); });
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    throw Error(ExitCode::kRecipe,
                text("the passes of this job cannot be recorded as a CUDA graph: {}",
                     why.substr(0, why.find('\n'))),
                "leave 'accelerator.cuda_graph' out");
  }
  for (const Parameter& leaf : leaves_) gradients_.push_back(leaf.local.grad());
}

void StepGraph::give_gradients() const {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    at::Tensor leaf = leaves_[i].local;
    if (!leaf.grad().defined()) leaf.mutable_grad() = gradients_[i];
  }
}

void build_step_graph(Job& job) {
  if (!job.recipe.accelerator.cuda_graph) return;
  const std::string what = unsupported(job);
  if (!what.empty()) {
    throw RecipeError({{recipe_place(job.resolved, "accelerator.cuda_graph"),
                        text("'cuda_graph' does not support {}", what), "leave it out"}});
  }
  const auto make = [device = job.device] { return make_device_graph(device); };
  make();  // refuses a device without graphs now
  job.step_graph = std::make_shared<StepGraph>(make, job.optimizers.front().leaves);
}

}  // namespace accel
