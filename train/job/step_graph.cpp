#include "train/job/step_graph.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <exception>
#include <string>

#include "core/api/auxiliary_loss.h"
#include "core/api/expert_parallel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "train/job/job.h"
#include "train/tasks/model_needs.h"

namespace accel {
namespace {

constexpr int64_t kPreparing = 2;  // passes before the recorded one

std::string text_without_graph(const std::string& why) {
  return text("accelerator.cuda_graph: passes are launched one by one: {}", why);
}

/// Memory of a graph for a step that took `bytes`: its blocks are of other sizes, and libraries
/// have workspaces there.
int64_t graph_bytes(int64_t bytes) {
  return bytes + bytes / 4 + (int64_t{128} << 20);
}

/// Of a device of libtorch.
class AllocatorMeter final : public DeviceMeter {
 public:
  AllocatorMeter(c10::DeviceAllocator& allocator, c10::DeviceIndex index)
      : allocator_(allocator), index_(index) {}

  DeviceMemory read() override {
    const auto allocated = allocator_.getDeviceStats(index_).allocated_bytes[0];  // of all pools
    return {.free = static_cast<int64_t>(allocator_.getMemoryInfo(index_).first),
            .allocated = allocated.current,
            .peak = allocated.peak};
  }
  void reset_peak() override { allocator_.resetPeakStats(index_); }

 private:
  c10::DeviceAllocator& allocator_;
  c10::DeviceIndex index_;
};

/// Null where the device's allocator does not count.
std::unique_ptr<DeviceMeter> meter_of(at::Device device) {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (!allocator) return nullptr;
  return std::make_unique<AllocatorMeter>(*allocator, device.index());
}

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

/// Whether passes are those of models that other people wrote, which may read the device.
bool runs_other_models(const Job& job) {
  const std::string& type = job.recipe.model.type;
  return !job.recipe.plugin_identities.empty() || type == "exported" || type == "torchscript" ||
         type == "aoti";
}

/// Throws Error (kRecipe) for a device without graphs.
StepGraph::MakeGraph graph_maker(at::Device device) {
  make_device_graph(device);
  return [device] { return make_device_graph(device); };
}

/// The graph of `auto`; else null, and why.
std::shared_ptr<StepGraph> graph_if_possible(const Job& job, std::string& why) {
  const std::string what = unsupported(job);
  if (!what.empty()) {
    why = text("a graph does not support {}", what);
  } else if (runs_other_models(job)) {
    why = "models of plugins and programs may wait for the GPU";
  } else {
    try {
      StepGraph::MakeGraph make = graph_maker(job.device);
      std::unique_ptr<DeviceMeter> meter = meter_of(job.device);
      const std::vector<Parameter>& leaves = job.optimizers.front().leaves;
      if (meter) return std::make_shared<StepGraph>(std::move(make), leaves, std::move(meter));
      why = "the device's allocator does not count its memory";
    } catch (const Error& error) {
      why = error.what();
    }
  }
  return nullptr;
}

}  // namespace

bool StepGraph::takes(const Batch& batch) {
  if (++passes_ <= kPreparing) {
    if (passes_ < kPreparing || !meter_) return false;
    meter_->reset_peak();
    allocated_ = meter_->read().allocated;
    return false;
  }
  if (graph_ && !is_shaped_as(batch, batch_)) return false;
  for (const Parameter& leaf : leaves_) {
    if (leaf.local.grad().defined()) return false;
  }
  return graph_ || has_memory();
}

bool StepGraph::has_memory() {
  if (!meter_) return !is_short_;
  const DeviceMemory memory = meter_->read();
  meter_.reset();
  const int64_t needed = graph_bytes(memory.peak - allocated_);
  is_short_ = needed > memory.free;
  const std::string sizes = text("a graph takes {} MiB, and {} MiB of the GPU's memory are free",
                                 needed >> 20, memory.free >> 20);
  say(is_short_ ? text_without_graph(sizes)
                : text("accelerator.cuda_graph: passes are recorded: {}", sizes));
  return !is_short_;
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
  const Auto<bool>& wanted = job.recipe.accelerator.cuda_graph;
  if (!wanted) {
    std::string why;
    job.step_graph = graph_if_possible(job, why);
    if (!job.step_graph) say(text_without_graph(why));
    return;
  }
  if (!*wanted) return;
  const std::string what = unsupported(job);
  if (!what.empty()) {
    throw RecipeError({{recipe_place(job.resolved, "accelerator.cuda_graph"),
                        text("'cuda_graph' does not support {}", what), "leave it out"}});
  }
  job.step_graph =
      std::make_shared<StepGraph>(graph_maker(job.device), job.optimizers.front().leaves);
}

}  // namespace accel
