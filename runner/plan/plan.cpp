#include "runner/plan/plan.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <set>

#include "runner/checkpoint/writer.h"
#include "runner/loop/run_state.h"
#include "runner/loop/train_step.h"
#include "runner/plan/dry_scope.h"
#include "runner/plan/shape_data.h"

namespace accel {
namespace {

class NothingPending final : public Pending {
 public:
  void wait() override {}
};

/// Ranks that are not there: whatever rank 0 asks of them is done.
class AbsentRanks final : public Communicator {
 public:
  explicit AbsentRanks(int64_t world) : world_(world) {}

  int64_t rank() const override { return 0; }
  int64_t world() const override { return world_; }
  std::unique_ptr<Pending> start_all_reduce(at::Tensor, ReduceOp, const char*) override {
    return std::make_unique<NothingPending>();
  }
  void broadcast(at::Tensor, int64_t, const char*) override {}
  at::Tensor all_gather(const at::Tensor& tensor, const char*) override {
    return at::stack(std::vector<at::Tensor>(static_cast<size_t>(world_), tensor));
  }
  void barrier(const char*) override {}

 private:
  int64_t world_;
};

/// Bytes of the tensors, memory that several share once.
class BytesOf {
 public:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !seen_.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
    bytes_ += static_cast<int64_t>(tensor.storage().nbytes());
  }
  void add(const std::vector<NamedTensor>& list) {
    for (const NamedTensor& item : list) add(item.tensor);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::set<const void*> seen_;
  int64_t bytes_ = 0;
};

int64_t optimizer_bytes(const Job& job) {
  BytesOf sum;
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    for (const OptimizerState::Parameter& parameter : group.parameters) sum.add(parameter.slots);
  }
  return sum.bytes();
}

/// One process whose world is as large as is wanted.
std::unique_ptr<Job> build_likeness(RecipeOptions recipe, const Node& resolved,
                                    const Registry& registry, const DataFacts& data,
                                    int64_t world) {
  recipe.data.train = shape_data(recipe.data.train, data.shape, data.train_samples);
  recipe.data.eval = shape_data(recipe.data.eval, data.shape, data.eval_samples);
  recipe.data.transform.clear();
  recipe.data.loader.group_by_length = false;  // all its samples are as long as the longest
  recipe.accelerator.num_processes = {};
  recipe.accelerator.distributed_type = DistributedType::kAuto;
  World ranks;
  if (world > 1) ranks.group = std::make_shared<AbsentRanks>(world);
  return build_job(std::move(recipe), resolved, registry, ranks);
}

/// Makes a step of `parts` micro-batches.
StepResult make_step(Job& job, int64_t step, int64_t parts) {
  Stopwatch unused;
  const Window window = shape_window(job.data, job.batches.micro_batch, parts, job.batches.world);
  return train_step(job, window, {.step = step}, unused);
}

std::vector<std::string> names_logged(const Job& job, const StepResult& step) {
  std::vector<std::string> names = {"train/loss", "train/grad_norm", "train/lr", "train/epoch",
                                    "train/samples_per_second"};
  if (job.length.tokens_per_step > 0) names.emplace_back("train/tokens_per_second");
  for (const auto& [name, value] : step.logged) names.push_back("train/" + name);
  if (job.precision->loss_scale() != 1) names.emplace_back("train/loss_scale");
  for (const auto& [name, higher] : job.metric_names) names.push_back(name);
  return names;
}

/// Whether a checkpoint may be written while training goes on.
bool saves_beside_training(const Job& job) {
  const CheckpointSection& section = job.recipe.checkpoint;
  if (!section.async) return false;
  return std::any_of(section.every.begin(), section.every.end(), [&](const Duration& every) {
    return every.unit == Duration::Unit::kSeconds || job.length.total_steps == 0 ||
           job.length.steps(every) < job.length.total_steps;
  });
}

void plan_memory(Job& job, const WorkMeter& meter, Plan& plan) {
  PlannedMemory& memory = plan.memory;
  BytesOf weights;
  weights.add(job.parameters);
  weights.add(job.buffers);
  memory.weights = weights.bytes();
  memory.optimizer = optimizer_bytes(job);
  for (const NamedTensor& item : job.parameters) {
    plan.parameters += item.tensor.numel();
    if (!item.tensor.requires_grad()) continue;
    plan.trained += item.tensor.numel();
    memory.gradients += static_cast<int64_t>(item.tensor.nbytes());
  }
  memory.others = std::max<int64_t>(0, meter.live_bytes() - memory.weights - memory.optimizer);
  const int64_t held = memory.weights + memory.optimizer + memory.others;
  memory.activations = std::max<int64_t>(0, meter.peak_bytes() - held - memory.gradients);
  memory.holes = std::max<int64_t>(0, meter.peak_resident() - meter.peak_bytes());
  memory.packing = meter.packing_bytes();
  const LoaderSection& loader = job.recipe.data.loader;
  const int64_t windows = 1 + (loader.workers > 0 ? loader.prefetch : 0);
  memory.loader =
      windows * job.batches.accumulation * job.batches.micro_batch * sample_bytes(job.data);
  if (saves_beside_training(job)) memory.copy = held;
}

}  // namespace

DataFacts open_data(const RecipeOptions& recipe, const Node& resolved, const Registry& registry) {
  const DryScope scope(std::make_shared<WorkMeter>());
  RecipeOptions alone = recipe;
  alone.accelerator.num_processes = {};
  alone.accelerator.distributed_type = DistributedType::kAuto;
  const auto job = build_job(std::move(alone), resolved, registry);
  return {job->data, job->train_samples, job->eval_samples};
}

Plan make_plan(const RecipeOptions& recipe, const Node& resolved, const Registry& registry,
               const DataFacts& data, int64_t world) {
  const auto meter = std::make_shared<WorkMeter>();
  const DryScope scope(meter);
  const auto job = build_likeness(recipe, resolved, registry, data, world);
  Plan plan;
  plan.batches = job->batches;
  plan.data = data;
  plan.built_bytes = meter->live_bytes();
  job->optimizer->reserve();
  make_step(*job, 1, 1);
  const double first = meter->flops();
  const int64_t parts = std::min<int64_t>(2, job->batches.accumulation);
  make_step(*job, 2, parts);
  const double second = meter->flops() - first;
  // By now the heap has the holes that it will have.
  plan.names = names_logged(*job, make_step(*job, 3, parts));
  const double pass = parts == 2 ? second - first : 0;
  plan.flops = (second + pass * static_cast<double>(job->batches.accumulation - parts)) *
               static_cast<double>(world);
  plan_memory(*job, *meter, plan);
  plan.checkpoint_bytes = checkpoint_bytes(capture(*job, {}, {}));
  const KeepSection& keep = job->recipe.checkpoint.keep;
  plan.checkpoints_kept = keep.last + keep.best + 1;
  plan.dataset_bytes = data.train_samples * sample_bytes(data.shape);
  plan.total_steps = job->length.total_steps;
  plan.steps_per_epoch = job->length.steps_per_epoch;
  return plan;
}

}  // namespace accel
