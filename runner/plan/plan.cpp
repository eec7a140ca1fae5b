#include "runner/plan/plan.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "checkpoint/writer.h"
#include "core/api/packed_sequences.h"
#include "core/api/sequence_pairs.h"
#include "core/api/target_sequences.h"
#include "data/loader/host_batch.h"
#include "data/loader/loader.h"
#include "infer/model_texts.h"
#include "models/layers/module_state.h"
#include "runner/plan/fake_tensor_mode.h"
#include "train/job/build_expert_parallel.h"
#include "train/job/build_job.h"
#include "train/job/build_pipeline.h"
#include "train/job/build_strategy.h"
#include "train/job/build_streaming.h"
#include "train/job/mixture_points.h"
#include "train/loop/run_state.h"
#include "train/loop/shards.h"
#include "train/step/train_step.h"

namespace accel {
namespace {

Array zeros(DType type, const Shape& shape) {
  Array array(type, shape);
  std::fill_n(array.mutable_data(), array.bytes(), std::byte{0});
  return array;
}

Shape stacked(int64_t samples, Shape one) {
  one.insert(one.begin(), samples);
  return one;
}

class ShapeData final : public Dataset {
 public:
  ShapeData(DataShape shape, int64_t samples) : shape_(std::move(shape)), samples_(samples) {}

  int64_t size() const override { return samples_; }
  Sample sample(int64_t) const override {
    return {zeros(shape_.input_type, shape_.input), zeros(shape_.target_type, shape_.target)};
  }
  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return "shape"; }

 private:
  DataShape shape_;
  int64_t samples_;
};

/// A dataset of `samples` zeros of this shape; the component of `like` gives its context.
DatasetParts shape_data(const DatasetParts& like, const DataShape& shape, int64_t samples) {
  if (like.parts.empty()) return {};
  DatasetPart part{like.parts.front().component, {}};
  part.component.type.clear();  // its samples are already transformed
  part.component.make = [shape, samples](const DatasetContext&) {
    return std::make_unique<ShapeData>(shape, samples);
  };
  return {{std::move(part)}};
}

/// The shape of samples as a batch has them: pairs are one sequence, targets their own.
DataShape collated(DataShape shape) {
  if (has_target_sequences(shape)) shape.target = {shape.target[0]};
  if (has_sequence_pairs(shape)) shape.input = shape.target = {kPairSize * shape.input[0]};
  return shape;
}

/// Segments of micro-batches: of pairs 0 in the first half and 1 in the second, else 0.
Array segments_of(const DataShape& data, const DataShape& shape, int64_t samples) {
  Array out = zeros(DType::kI64, stacked(samples, shape.input));
  if (!has_sequence_pairs(data)) return out;
  const auto values = out.mutable_as<int64_t>();
  const auto length = static_cast<size_t>(shape.input[0]);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % length < length / 2 ? 0 : 1;
  return out;
}

/// `count` micro-batches of rank 0, of zeros, each of the longest sequence length.
GlobalBatch shape_window(const DataShape& data, int64_t samples, int64_t count, int64_t world) {
  const DataShape shape = collated(data);
  GlobalBatch global_batch;
  global_batch.samples = samples * count * world;
  global_batch.num_micro_batches = count * world;
  for (int64_t i = 0; i < count; ++i) {
    HostBatch batch;
    batch.inputs = zeros(shape.input_type, stacked(samples, shape.input));
    batch.targets = zeros(shape.target_type, stacked(samples, shape.target));
    batch.ids.assign(static_cast<size_t>(samples), 0);
    batch.micro_batch_index = i * world;
    if (shape.padding) {
      const std::vector<int64_t> lengths(static_cast<size_t>(samples), shape.input.front());
      batch.lengths = Array::of(DType::kI64, {samples}, std::span<const int64_t>(lengths));
    }
    if (shape.segments > 0) batch.segments = segments_of(data, shape, samples);
    global_batch.micro_batches.push_back(std::move(batch));
  }
  return global_batch;
}

/// Bytes of one sample with its target, as the model takes it.
int64_t sample_bytes(const DataShape& data) {
  const DataShape shape = collated(data);
  const auto bytes = [](DType type, const Shape& part) {
    return count_of(part) * static_cast<int64_t>(size_of(type));
  };
  const int64_t segments = shape.segments > 0 ? bytes(DType::kI64, shape.input) : 0;
  return bytes(shape.input_type, shape.input) + bytes(shape.target_type, shape.target) + segments;
}

/// Bytes of tensors; shared storage counts once.
class StorageBytes {
 public:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !seen_.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
    bytes_ += static_cast<int64_t>(tensor.storage().nbytes());
  }
  void add(const std::vector<Parameter>& list) {
    for (const Parameter& item : list) add(item.local);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::set<const void*> seen_;
  int64_t bytes_ = 0;
};

int64_t optimizer_bytes(const Job& job) {
  StorageBytes sum;
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters)
      sum.add(parameter.slots);
  }
  return sum.bytes();
}

/// Of one process: without a group.
struct FakeRanks {
  int64_t world = 1;
  std::shared_ptr<Communicator> group;
};

FakeRanks fake_ranks(int64_t world, Traffic* traffic = nullptr) {
  if (world == 1) return {};
  return {world, std::make_shared<FakeGroup>(world, traffic)};
}

/// The job of one of the ranks.
std::unique_ptr<Job> build_fake_job(RecipeOptions recipe, const Node& resolved,
                                    const Registry& registry, const DataSchema& data,
                                    FakeRanks of) {
  const DatasetParts& eval = recipe.data.split.eval ? recipe.data.train : recipe.data.eval;
  DataShape of_eval = data.shape;
  if (is_packed(of_eval)) of_eval.segments = 0;  // eval data need not be packed
  recipe.data.eval = shape_data(eval, of_eval, data.eval_samples);
  recipe.data.train = shape_data(recipe.data.train, data.shape, data.train_samples);
  recipe.data.split = {};
  recipe.data.transform.clear();
  recipe.data.loader.group_by_length = false;  // all fake samples have the maximum length
  recipe.data.loader.curriculum = {};
  recipe.accelerator.num_processes = {};
  recipe.accelerator.distributed_type = DistributedType::kAuto;
  World ranks;
  ranks.is_estimate = true;
  if (of.group) {
    check_sharing(recipe, resolved, of.world);
    ranks.mesh = build_mesh(recipe.accelerator, std::move(of.group));
    ranks.inputs_are_same = true;
  }
  return build_job(std::move(recipe), resolved, registry, ranks, {texts_of});
}

/// Runs a step of `micro_batches` micro-batches.
StepResult run_step(Job& job, int64_t step, int64_t micro_batches) {
  Stopwatch unused;
  const GlobalBatch global_batch =
      shape_window(job.data, job.batches.micro_batch, micro_batches, job.batches.world);
  return train_step(job, global_batch, {.step = step}, unused);
}

struct MeasuredStep {
  StepResult result;
  double flops;
  double moved_bytes;
  int64_t peak_bytes;
  Traffic traffic;
};

/// Messages of pipeline stages name their micro-batch, which does not matter here.
Traffic without_micro_batches(const Traffic& traffic) {
  Traffic out;
  for (const auto& [key, sent] : traffic) {
    const std::string& purpose = key.purpose;
    Sent& sum = out[{key.group, purpose.substr(0, purpose.find(", micro-batch"))}];
    sum.bytes += sent.bytes;
    sum.calls += sent.calls;
  }
  return out;
}

/// `meter` and `traffic` count what the job does.
MeasuredStep measure_step(Job& job, int64_t step, int64_t micro_batches, WorkMeter& meter,
                          Traffic& traffic) {
  const double flops = meter.flops(), moved = meter.moved_bytes();
  traffic.clear();
  meter.begin_peak();
  StepResult result = run_step(job, step, micro_batches);
  return {std::move(result), meter.flops() - flops, meter.moved_bytes() - moved,
          meter.recent_peak(), without_micro_batches(std::exchange(traffic, {}))};
}

/// Activations of the micro-batches that are under way in a step of all, beside those of a step of
/// `measured` ones.
int64_t further_activations(const Job& job, const MeasuredStep& one, const MeasuredStep& some,
                            int64_t measured) {
  const AcceleratorSection& section = job.recipe.accelerator;
  if (section.parallelism.pp == 1 || measured >= job.batches.accumulation) return 0;
  const auto alive = [&](int64_t micro_batches) {
    return most_alive(section.pipeline.schedule, pipeline_schedule(section, 1).layout,
                      micro_batches, 0);
  };
  const int64_t apart = std::max<int64_t>(1, alive(measured) - alive(1));
  const int64_t each = (some.peak_bytes - one.peak_bytes) / apart;
  return std::max<int64_t>(0, each * (alive(job.batches.accumulation) - alive(measured)));
}

/// What a step of as many micro-batches as the recipe's takes, by one of one micro-batch and one of
/// `measured` ones.
void plan_work(const MeasuredStep& one, const MeasuredStep& some, int64_t measured, Plan& plan) {
  const int64_t apart = measured - 1, more = plan.batches.accumulation - measured;
  const auto extended = [&](double first, double last) {
    return apart == 0
               ? last
               : last + (last - first) * static_cast<double>(more) / static_cast<double>(apart);
  };
  plan.rank_flops = extended(one.flops, some.flops);
  plan.moved_bytes = extended(one.moved_bytes, some.moved_bytes);
  const int64_t ranks_per_stage = plan.ranks() / plan.mesh.pipeline;
  plan.flops = plan.rank_flops * static_cast<double>(ranks_per_stage) *
               (plan.pipeline ? plan.pipeline->relative_cost : 1);
  for (const auto& [key, sent] : some.traffic) {
    const auto found = one.traffic.find(key);
    const Sent first = found == one.traffic.end() ? Sent{} : found->second;
    const Sent each =
        apart == 0 ? Sent{}
                   : Sent{(sent.bytes - first.bytes) / apart, (sent.calls - first.calls) / apart};
    plan.traffic[key] = {sent.bytes + each.bytes * more, sent.calls + each.calls * more};
    plan.micro_batch_traffic[key] = each;
  }
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

/// Whether asynchronous checkpoints are written during training.
bool saves_asynchronously(const Job& job) {
  const CheckpointSection& section = job.recipe.checkpoint;
  if (!section.async || job.swapper) return false;
  return std::any_of(section.every.begin(), section.every.end(), [&](const Duration& every) {
    return every.unit == Duration::Unit::kSeconds || job.length.total_steps == 0 ||
           job.length.steps(every) < job.length.total_steps;
  });
}

/// The tensors that the job holds throughout.
PlannedMemory state_memory(const Job& job) {
  PlannedMemory memory;
  StorageBytes weights;
  weights.add(job.parameters);
  weights.add(parameters_of(*job.model));  // whole ones beside the shares
  for (const TaskModel& item : job.task_models) weights.add(parameters_of(*item.model));
  weights.add(job.buffers);
  memory.weights = weights.bytes() - frozen_memory(job).streamed_bytes();
  memory.optimizer = optimizer_bytes(job) + job.optimizer->pending_state_bytes();
  for (const Parameter& item : job.parameters) {
    const bool is_swapped = job.swapper && job.swapper->find(item.local);
    if (!item.local.requires_grad() || is_swapped) continue;
    memory.gradients += static_cast<int64_t>(item.local.nbytes());
  }
  return memory;
}

void plan_memory(Job& job, const WorkMeter& meter, Plan& plan) {
  PlannedMemory& memory = plan.memory = state_memory(job);
  for (const Parameter& item : job.parameters) {
    plan.parameters += item.numel();
    if (item.local.requires_grad()) plan.trained += item.numel();
  }
  const FrozenMemory frozen = frozen_memory(job);
  plan.parameters += frozen.elements;
  const int64_t live = meter.live_bytes() - frozen.streamed_bytes();
  memory.others = std::max<int64_t>(0, live - memory.weights - memory.optimizer);
  const int64_t held = memory.weights + memory.optimizer + memory.others;
  const int64_t peak = meter.peak_bytes() - frozen.streamed_bytes();
  memory.activations = std::max<int64_t>(0, peak - held - memory.gradients);
  memory.packing = meter.packing_bytes();
  memory.fragmentation =
      std::max<int64_t>(0, meter.peak_resident() - meter.peak_bytes() - memory.packing);
  const LoaderSection& loader = job.recipe.data.loader;
  const int64_t global_batches = 1 + (loader.workers > 0 ? loader.prefetch : 0);
  memory.loader =
      global_batches * job.batches.accumulation * job.batches.micro_batch * sample_bytes(job.data);
  if (saves_asynchronously(job)) memory.copy = held - frozen.resident_bytes;
}

/// What rank 0 would hold if it had the stages of that rank.
PlannedMemory memory_of_rank(const Plan& plan, const PlannedStage& rank) {
  const PlannedStage& first = plan.pipeline->ranks.front();
  PlannedMemory memory = plan.memory;
  memory.weights += rank.weights - first.weights;
  memory.gradients += rank.gradients - first.gradients;
  memory.optimizer += rank.optimizer - first.optimizer;
  if (memory.copy > 0) memory.copy += rank.bytes() - first.bytes();
  const double share = rank.relative_activations * static_cast<double>(rank.alive) /
                       static_cast<double>(std::max<int64_t>(first.alive, 1));
  memory.activations = static_cast<int64_t>(static_cast<double>(memory.activations) * share);
  return memory;
}

/// Stages differ in their blocks and in the micro-batches that are under way; the embedding is on
/// the first one, the head on the last one. Ranks of the other axes have equal shares, or rank 0
/// has the largest.
void take_largest_rank(Plan& plan) {
  plan.rank_0_memory = plan.memory;
  if (!plan.pipeline) return;
  const int64_t stride = plan.ranks() / plan.mesh.pipeline;
  PlannedMemory largest = plan.memory;
  const std::vector<PlannedStage>& ranks = plan.pipeline->ranks;
  for (size_t i = 1; i < ranks.size(); ++i) {
    const PlannedMemory memory = memory_of_rank(plan, ranks[i]);
    if (memory.total() <= largest.total()) continue;
    largest = memory;
    plan.largest_rank = static_cast<int64_t>(i) * stride;
  }
  plan.memory = largest;
}

}  // namespace

DataSchema open_data(const RecipeOptions& recipe, const Node& resolved, const Registry& registry) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  RecipeOptions alone = recipe;
  alone.accelerator.num_processes = {};
  alone.accelerator.distributed_type = DistributedType::kAuto;
  alone.accelerator.parallelism = {};
  alone.accelerator.fsdp = {};
  const auto job = build_job(std::move(alone), resolved, registry, {}, {texts_of});
  return {job->data, job->train_samples, job->eval_samples, mixture_summary(*job)};
}

Plan make_plan(const RecipeOptions& recipe, const Node& resolved, const Registry& registry,
               const DataSchema& data, PlanRanks ranks) {
  const int64_t world = ranks.world;
  const auto meter = std::make_shared<WorkMeter>();
  const FakeTensorMode scope(meter);
  Traffic traffic;
  const auto job = build_fake_job(recipe, resolved, registry, data, fake_ranks(world, &traffic));
  Plan plan;
  plan.batches = job->batches;
  plan.mesh = sizes_of_mesh(recipe.accelerator, world);
  plan.data = data;
  if (job->expert_ranks) plan.experts = expert_summary(*job);
  plan.streaming = streaming_summary(*job);
  if (job->swapper) job->swapper->drain();
  plan.built_bytes = meter->live_bytes();
  const int64_t built_peak = meter->peak_bytes();
  job->optimizer->preallocate_state();
  const int64_t micro_batches = measured_micro_batches(*job, ranks.detail);
  // Sharding learns the order of blocks.
  run_step(*job, 1, ranks.detail == PlanDetail::kMeasured ? micro_batches : 1);
  const MeasuredStep one = measure_step(*job, 2, 1, *meter, traffic);
  // By now the fragmentation of the heap is stable.
  const MeasuredStep some = measure_step(*job, 3, micro_batches, *meter, traffic);
  plan.names = names_logged(*job, some.result);
  plan.pipeline = plan_pipeline(*job, optimizer_bytes(*job));
  plan_work(one, some, micro_batches, plan);
  const AcceleratorSection& accelerator = recipe.accelerator;
  const bool divided = (accelerator.fsdp.stage > 0 && (world > 1 || job->swapper)) ||
                       accelerator.parallelism.tp > 1 || accelerator.parallelism.pp > 1 ||
                       accelerator.parallelism.ep > 1;
  if (divided && meter->peak_bytes() == built_peak) plan.start_peak = built_peak;
  plan_memory(*job, *meter, plan);
  plan.memory.activations += further_activations(*job, one, some, micro_batches);
  if (job->swapper) plan.scratch_bytes = job->swapper->disk_bytes();
  const TrainState state = capture(*job, {}, {});
  const int64_t other_shards = bytes_of_other_shards(*job, state);
  plan.checkpoint_bytes = checkpoint_bytes(state) + other_shards;
  if (plan.memory.copy > 0 && other_shards > 0) {
    // Rank 0 gathers the whole state for a full checkpoint, and copies that.
    plan.memory.copy = saves_shards(*job) ? checkpoint_bytes(state) : 2 * plan.checkpoint_bytes;
  }
  take_largest_rank(plan);
  const KeepSection& keep = job->recipe.checkpoint.keep;
  plan.checkpoints_kept = keep.last + keep.best + 1;
  plan.dataset_bytes = data.train_samples * sample_bytes(data.shape);
  plan.tokens = job->length.tokens_per_step;
  plan.total_steps = job->length.total_steps;
  plan.steps_per_epoch = job->length.steps_per_epoch;
  return plan;
}

void visit_fake_model(const RecipeOptions& recipe, const Node& resolved, const Registry& registry,
                      const DataSchema& data, const std::function<void(Model&)>& visit) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  const auto job = build_fake_job(recipe, resolved, registry, data, {});
  visit(*job->model);
}

PlannedMemory plan_state(const RecipeOptions& recipe, const Node& resolved,
                         const Registry& registry, const DataSchema& data, int64_t world) {
  const FakeTensorMode scope(std::make_shared<WorkMeter>());
  const auto job = build_fake_job(recipe, resolved, registry, data, fake_ranks(world));
  return state_memory(*job);
}

}  // namespace accel
