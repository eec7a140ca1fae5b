#include "train/job/build_strategy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include "core/api/sample_rng.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "data/loader/shard.h"
#include "models/layers/module_state.h"
#include "models/layers/share_batch_norm.h"
#include "parallel/tensor_strategy.h"
#include "train/job/build_expert_parallel.h"
#include "train/job/build_fsdp.h"
#include "train/job/build_pipeline.h"
#include "train/job/build_streaming.h"
#include "train/job/build_tensor_parallel.h"
#include "train/job/check_quantization.h"
#include "train/job/torch_setup.h"

namespace accel {
namespace {

Span place_in(const Node& resolved, const char* section_name, const char* key) {
  const Node::Entry* section = resolved.find(section_name);
  const Node::Entry* entry = section ? section->node.find(key) : nullptr;
  return entry ? entry->node.where : section ? section->node.where : resolved.where;
}

[[noreturn]] void refuse(const Node& resolved, const char* key, const std::string& message,
                         const std::string& hint) {
  throw RecipeError({{place_in(resolved, "accelerator", key), message, hint}});
}

void check_canonical(const RecipeOptions& recipe, const Node& resolved, int64_t world) {
  if (!std::has_single_bit(static_cast<uint64_t>(world))) {
    refuse(resolved, "reduction",
           text("'reduction' canonical needs 1, 2, 4, 8, ... ranks, not {}", world),
           "use another number of processes, or bucketed");
  }
  if (!recipe.train.micro_batch) {
    refuse(resolved, "reduction", "'reduction' canonical needs 'train.micro_batch'",
           "sums are independent of the number of ranks only with fixed micro-batches");
  }
  const LoaderSection& loader = recipe.data.loader;
  if (loader.split_batches && !loader.dispatch_batches) return;
  const std::string key = loader.split_batches ? "dispatch_batches" : "split_batches";
  refuse(resolved, "reduction",
         text("'reduction' canonical does not support 'data.loader.{}', which divides samples "
              "differently by the number of ranks",
              key),
         text("leave '{}' out, or use bucketed", key));
}

std::optional<at::ScalarType> comm_dtype(CommHook hook) {
  switch (hook) {
    case CommHook::kNo:
    case CommHook::kPowerSgd:
      return std::nullopt;
    case CommHook::kFp16:
      return at::kHalf;
    case CommHook::kBf16:
      return at::kBFloat16;
  }
  return std::nullopt;
}

/// Whether the last round of an epoch has a micro-batch for each rank.
bool all_ranks_have_samples(const Job& job) {
  const LoaderSection& loader = job.recipe.data.loader;
  if (loader.drop_last || loader.even_batches) return true;
  const ShardPlan plan{.samples = job.train_loader->samples_per_epoch(),
                       .micro_batch = job.batches.micro_batch,
                       .world = job.mesh.data->world(),
                       .sharing = loader.dispatch_batches ? Sharing::kSlices : Sharing::kBatches,
                       .even_batches = false,
                       .all_ranks = true};
  return round_of(plan, rounds_of(plan) - 1).batches == plan.world;
}

void sync_batch_norm(const Job& job) {
  std::function<void(const at::Tensor&)> sum;
  if (job.mesh.data->world() > 1) {
    sum = [group = job.mesh.data](const at::Tensor& numbers) {
      group->all_reduce(numbers, ReduceOp::kSum, "batch norm");
    };
  }
  const int64_t found = at_place(place_in(job.resolved, "accelerator", "sync_batch_norm"), [&] {
    int64_t norms = share_batch_norm(*job.model, sum);
    for (const TaskModel& item : job.task_models) norms += share_batch_norm(*item.model, sum);
    return norms;
  });
  if (found == 0) {
    refuse(job.resolved, "sync_batch_norm",
           "'sync_batch_norm' has no effect: the model has no batch norm", "leave it out");
  }
  if (!all_ranks_have_samples(job)) {
    refuse(
        job.resolved, "sync_batch_norm",
        text("'sync_batch_norm' needs samples on all {} ranks, but the last batch of an epoch of "
             "{} samples has fewer",
             job.mesh.data->world(), job.train_loader->samples_per_epoch()),
        "set 'data.loader.even_batches' or 'drop_last'");
  }
}

/// EMA needs weights that are the same on all ranks: those after an average over ranks.
void check_local_sgd(const Job& job) {
  const Duration every = *job.recipe.accelerator.local_sgd.every;
  for (const Ref<Callback>& callback : job.recipe.callbacks) {
    if (callback.type != "ema") continue;
    const Scalar* steps = callback.resolved.find("every")->node.scalar();
    const std::optional<Duration> ema = parse_duration(*steps).value;
    if (ema && std::fmod(ema->value, every.value) == 0) continue;
    refuse(job.resolved, "local_sgd",
           "the callback 'ema' cannot average between the synchronizations of 'local_sgd': weights "
           "differ by rank",
           text("set 'every' of 'ema' to {} or a multiple of it", to_string(every)));
  }
}

std::optional<PowerSgdOptions> power_sgd(const RecipeOptions& recipe) {
  const DdpSection& ddp = recipe.accelerator.ddp;
  if (ddp.comm_hook != CommHook::kPowerSgd) return std::nullopt;
  return PowerSgdOptions{.rank = ddp.power_sgd.rank,
                         .start = static_cast<int64_t>(ddp.power_sgd.start.value),
                         .min_compression_rate = ddp.power_sgd.min_compression_rate,
                         .seed = static_cast<uint64_t>(recipe.seed)};
}

/// The sizes of the recipe's mesh over `world` ranks; their product may differ.
MeshSizes mesh_sizes(const AcceleratorSection& section, int64_t world) {
  const ParallelismSection& parallelism = section.parallelism;
  MeshSizes sizes{.pipeline = parallelism.pp,
                  .context = parallelism.cp * parallelism.sp,
                  .tensor = parallelism.tp,
                  .expert = parallelism.ep};
  const int64_t data = std::max<int64_t>(1, world / sizes.ranks());
  if (section.fsdp.stage == 0) {
    sizes.replicate = parallelism.dp_replicate.value_or(data);
    return sizes;
  }
  sizes.replicate = parallelism.dp_replicate.value_or(
      parallelism.dp_shard ? std::max<int64_t>(1, data / *parallelism.dp_shard) : 1);
  sizes.shard = parallelism.dp_shard.value_or(std::max<int64_t>(1, data / sizes.replicate));
  return sizes;
}

void check_mesh(const RecipeOptions& recipe, const Node& resolved, int64_t world) {
  const MeshSizes sizes = mesh_sizes(recipe.accelerator, world);
  if (sizes.ranks() == world) return check_expert_mesh(resolved, sizes);
  std::string product = "dp_replicate " + std::to_string(sizes.replicate) + " x dp_shard " +
                        std::to_string(sizes.shard);
  for (const MeshAxis& axis : kMeshAxes) {
    const bool data = axis.axis == Axis::kReplicate || axis.axis == Axis::kShard;
    const int64_t size = sizes.*axis.size;
    if (!data && size > 1) product += std::string(" x ") + axis.name + " " + std::to_string(size);
  }
  refuse(resolved, "parallelism",
         text("'parallelism' is {}, but there are {} ranks", product, world),
         "leave one of the two at auto, or set 'num_processes' to their product");
}

/// The parameters and buffers of the models.
StrategyContext context_of(const Job& job, const NamedModels& models) {
  StrategyContext out{{}, {}, job.mesh.gradients.get()};
  for (const auto& [prefix, model] : models) {
    add_named(out.parameters, prefix, parameters_of(*model));
    add_named(out.buffers, prefix, buffers_of(*model));
  }
  std::erase_if(out.parameters, [](const Parameter& item) { return !item.local.requires_grad(); });
  place_tensors(job, out.parameters);
  return out;
}

}  // namespace

MeshSizes sizes_of_mesh(const AcceleratorSection& section, int64_t ranks) {
  return mesh_sizes(section, ranks);
}

std::string rank_name(const Job& job, int64_t rank) {
  const std::string place = mesh_place(sizes_of_mesh(job.recipe.accelerator, job.num_ranks), rank);
  return text("rank {}", rank) + (place.empty() ? "" : " (" + place + ")");
}

Mesh build_mesh(const AcceleratorSection& section, std::shared_ptr<Communicator> world) {
  const int64_t ranks = world->world();
  return make_mesh(std::move(world), mesh_sizes(section, ranks));
}

TrainSection shared_train(const RecipeOptions& recipe, int64_t world) {
  TrainSection train = recipe.train;
  if (!recipe.data.loader.split_batches) train.batch *= world;
  return train;
}

void check_sharing(const RecipeOptions& recipe, const Node& resolved, int64_t world) {
  const AcceleratorSection& section = recipe.accelerator;
  if (section.num_processes && *section.num_processes != world) {
    refuse(resolved, "num_processes",
           text("'num_processes' is {}, but the launcher started {} processes",
                *section.num_processes, world),
           "leave 'num_processes' at auto under another launcher");
  }
  if (section.distributed_type == DistributedType::kNo && world > 1) {
    refuse(resolved, "distributed_type",
           text("'distributed_type' is no, but the launcher started {} processes", world),
           "leave it at auto");
  }
  check_mesh(recipe, resolved, world);
  check_pipeline(recipe, resolved);
  const MeshSizes sizes = mesh_sizes(section, world);
  check_quantization(recipe, sizes);
  check_streaming(recipe, resolved, sizes);
  const int64_t data = sizes.data();
  if (section.reduction == Reduction::kCanonical) check_canonical(recipe, resolved, data);
  at_place(place_in(resolved, "train", "batch"),
           [&] { return plan_batches(shared_train(recipe, data), data); });
}

void seed_rank(const Job& job, int64_t step) {
  const int64_t rank = job.data_rank;
  if (rank == 0) return;
  SampleRng rng(static_cast<uint64_t>(job.recipe.seed), static_cast<uint64_t>(step),
                static_cast<uint64_t>(rank));
  seed_generator(rng.next());
}

void prepare_sharing(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  if (section.sync_batch_norm) sync_batch_norm(job);
  if (section.local_sgd.every) check_local_sgd(job);
  if (section.reduction != Reduction::kCanonical) return;
  for (const Parameter& buffer : job.buffers) {
    if (!buffer.name.ends_with("running_mean")) continue;
    refuse(job.resolved, "reduction",
           text("'reduction' canonical does not support the running statistics '{}', which depend "
                "on the number of ranks",
                buffer.name),
           "use a model without batch norm, or bucketed");
  }
}

namespace {

DdpOptions ddp_options(const RecipeOptions& recipe) {
  const DdpSection& ddp = recipe.accelerator.ddp;
  return {.bucket_bytes = ddp.bucket_cap_mb << 20,
          .broadcast_buffers = ddp.broadcast_buffers,
          .comm_dtype = comm_dtype(ddp.comm_hook),
          .power_sgd = power_sgd(recipe)};
}

std::unique_ptr<Strategy> build_data_strategy(const Job& job, const NamedModels& models,
                                              size_t index) {
  const AcceleratorSection& section = job.recipe.accelerator;
  // Each optimizer's passes have another random stream.
  const uint64_t seed = static_cast<uint64_t>(job.recipe.seed) + index;
  const bool has_stages = job.mesh.pipeline->world() > 1;
  if (section.fsdp.stage > 0 && !has_stages) return build_fsdp(job, models, seed);
  const DdpOptions ddp = ddp_options(job.recipe);
  if (has_stages) return build_pipeline(job, seed, ddp);
  StrategyContext context = context_of(job, models);
  std::erase_if(context.parameters, &is_of_expert);  // see with_experts()
  if (section.reduction == Reduction::kCanonical) {
    return make_canonical(context, {.bucket_bytes = ddp.bucket_bytes, .seed = seed});
  }
  if (job.mesh.gradients->world() == 1) return make_single();
  if (section.local_sgd.every) {
    return make_local_sgd(context, static_cast<int64_t>(section.local_sgd.every->value));
  }
  return make_ddp(context, ddp);
}

}  // namespace

std::unique_ptr<Strategy> build_strategy(const Job& job, const NamedModels& models, size_t index) {
  std::unique_ptr<Strategy> data = build_data_strategy(job, models, index);
  if (job.expert_ranks) {
    const bool reduces = job.recipe.accelerator.fsdp.stage > 0 || job.mesh.pipeline->world() > 1;
    data = with_experts(job, std::move(data), context_of(job, models).parameters,
                        ddp_options(job.recipe), reduces);
  }
  if (job.mesh.tensor->world() == 1) return data;
  std::vector<Parameter> partial = context_of(job, models).parameters;
  std::erase_if(partial, [&](const Parameter& item) {
    const auto cut = job.tensor_cuts.find(item.name);
    return cut == job.tensor_cuts.end() || !cut->second.is_partial;
  });
  return make_tensor_parallel(std::move(data), partial, job.mesh.tensor);
}

}  // namespace accel
