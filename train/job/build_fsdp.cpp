#include "train/job/build_fsdp.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "core/base/scratch_file.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/fp8_layers.h"
#include "models/layers/module_state.h"
#include "parallel/fsdp.h"
#include "parallel/share_region.h"
#include "train/job/build_expert_parallel.h"
#include "train/job/build_tensor_parallel.h"

namespace accel {
namespace {

/// Null: fp32.
std::optional<at::ScalarType> type_of(FsdpDtype dtype) {
  switch (dtype) {
    case FsdpDtype::kFp32:
      return std::nullopt;
    case FsdpDtype::kBf16:
      return at::kBFloat16;
    case FsdpDtype::kFp16:
      return at::kHalf;
  }
  return std::nullopt;
}

bool is_ignored(const Job& job, const std::string& name) {
  const std::vector<std::string>& patterns = job.recipe.accelerator.fsdp.ignored;
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return name_matches(pattern, name); });
}

/// Refuses a pattern without a match.
void check_ignored(const Job& job) {
  std::vector<std::string> names;
  for (const Parameter& item : job.parameters) names.push_back(item.name);
  Diagnostics problems;
  for (const std::string& pattern : job.recipe.accelerator.fsdp.ignored) {
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name_matches(pattern, name);
    });
    if (matches) continue;
    const UnmatchedPattern unmatched = {pattern, "parameter", names};
    problems.error(recipe_place(job.resolved, "accelerator.fsdp.ignored"), unmatched.message(),
                   unmatched.hint());
  }
  problems.check();
}

/// Gradients of whole parameters are summed over all ranks.
void check_whole_expert(const Job& job, const Parameter& item) {
  if (!item.local.requires_grad()) return;
  throw RecipeError({{recipe_place(job.resolved, "accelerator.fsdp.ignored"),
                      text("'ignored' does not support parameters of experts with 'ep', such as "
                           "'{}'",
                           item.name),
                      "leave them out"}});
}

/// Moves the parameters of blocks that have fewer than `least` to the root unit.
void join_small_blocks(FsdpContext& context, int64_t least) {
  std::erase_if(context.blocks, [&](const FsdpUnit& unit) {
    int64_t count = 0;
    for (const Parameter& item : unit.parameters) count += item.numel();
    if (count >= std::max<int64_t>(least, 1)) return false;
    context.root.insert(context.root.end(), unit.parameters.begin(), unit.parameters.end());
    return true;
  });
}

/// The units of the models: their blocks, and one of what no block has. `own`: only these
/// parameters; null: all.
FsdpContext fsdp_context(const Job& job, const NamedModels& models,
                         const std::vector<Parameter>* own = nullptr) {
  FsdpContext out{.home = shard_home(job), .mesh = job.mesh};
  for (const auto& [prefix, model] : models) {
    std::map<std::string, size_t> unit_of;  // by name
    for (const BlockParameters& block : blocks_of(*model)) {
      for (const Parameter& item : block.parameters)
        unit_of[prefix + item.name] = out.blocks.size();
      out.blocks.push_back({block.block, {}});
    }
    std::vector<Parameter> parameters;
    if (own) {
      parameters = *own;
    } else {
      add_named(parameters, prefix, parameters_of(*model));
      place_tensors(job, parameters);
    }
    for (const Parameter& item : parameters) {
      const std::string& name = item.name;
      const bool absent = is_absent(job, item);
      const bool whole = absent || !divides_rows(job, name, item.local);
      if (whole) materialize(item.local);
      if (absent) continue;
      if (whole && is_of_expert(item)) check_whole_expert(job, item);
      const auto unit = unit_of.find(name);
      auto& list = whole                   ? out.replicated
                   : unit == unit_of.end() ? out.root
                                           : out.blocks[unit->second].parameters;
      list.push_back(item);
    }
    for (const std::string& name : autocast_weights_of(*model))
      out.cast_weights.autocast.insert(prefix + name);
    for (const auto& [name, weight] : fp8_gathered_weights(*model))
      out.cast_weights.fp8[prefix + name] = weight;
    // Those of frozen models do not change.
    if (is_training(*model)) add_named(out.buffers, prefix, buffers_of(*model));
  }
  join_small_blocks(out, job.recipe.accelerator.fsdp.min_num_params);
  return out;
}

FsdpOptions fsdp_options(const Job& job, uint64_t seed) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const FsdpSection& fsdp = section.fsdp;
  const bool in_pipeline = section.parallelism.pp > 1;
  const int64_t bucket_bytes = section.ddp.bucket_cap_mb << 20;
  std::optional<CanonicalOptions> canonical;
  if (section.reduction == Reduction::kCanonical) canonical = {bucket_bytes, seed};
  return {.stage = static_cast<ShardStage>(fsdp.stage),
          .reshard_after_forward = fsdp.reshard_after_forward.value_or(true),
          .in_pipeline = in_pipeline,
          .sync_each_batch = fsdp.sync_each_batch.value_or(!in_pipeline),
          .param_dtype = type_of(fsdp.param_dtype_under(section.mixed_precision)),
          .reduce_dtype = type_of(fsdp.reduce_dtype),
          .canonical = canonical,
          .broadcast_buffers = section.ddp.broadcast_buffers,
          .bucket_bytes = bucket_bytes};
}

}  // namespace

/// Scalars and tensors of unusual strides have no rows in memory. Below stage 3, rows of a frozen
/// parameter would be a second copy.
bool divides_rows(const Job& job, const std::string& name, const at::Tensor& tensor) {
  if (job.recipe.accelerator.fsdp.stage == 0) return false;
  const bool has_use = gathers_in_passes(job) || tensor.requires_grad();
  return has_use && tensor.dim() > 0 && tensor.is_contiguous() && !is_ignored(job, name);
}

std::unique_ptr<Strategy> build_fsdp(const Job& job, const NamedModels& models, uint64_t seed) {
  check_ignored(job);
  return make_fsdp(fsdp_context(job, models), fsdp_options(job, seed));
}

std::unique_ptr<Strategy> build_stage_fsdp(const Job& job, const std::vector<Parameter>& own) {
  check_ignored(job);
  return make_fsdp(fsdp_context(job, {{"", job.model.get()}}, &own), fsdp_options(job, 0));
}

std::shared_ptr<const ShardExchange> shard_exchange(const Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const ParallelismSection& parallelism = section.parallelism;
  const bool divides =
      section.fsdp.stage > 0 || parallelism.tp > 1 || parallelism.pp > 1 || parallelism.ep > 1;
  return divides ? make_shard_exchange(job.mesh) : nullptr;
}

std::string sharding_summary(const Job& job) {
  int64_t own = 0;
  for (const Parameter& item : job.parameters) own += static_cast<int64_t>(item.local.nbytes());
  const int64_t replicas = job.mesh.replicate->world(), context = job.mesh.context->world();
  std::array<char, 32> size;
  std::snprintf(size.data(), size.size(), "%.1f MiB", static_cast<double>(own) / (1 << 20));
  const FsdpSection& fsdp = job.recipe.accelerator.fsdp;
  const bool sharded = fsdp.state_dict == StateDictType::kSharded;
  return "FSDP stage " + std::to_string(fsdp.stage) + ", " +
         (replicas > 1 ? "dp_replicate " + std::to_string(replicas) + " x " : std::string()) +
         "dp_shard " + std::to_string(job.mesh.shard->world() / context) +
         (context > 1 ? " x cp " + std::to_string(context) : std::string()) + ": rows of " +
         size.data() + " of parameters per rank; " + (sharded ? "sharded" : "full") +
         " checkpoints";
}

void check_shards(const Job& job, const Optimizer& optimizer, const std::string& type,
                  const Span& where) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const ParallelismSection& parallelism = section.parallelism;
  const bool divides_otherwise = parallelism.tp > 1 || parallelism.pp > 1 || parallelism.ep > 1;
  if (section.fsdp.stage == 0 && !divides_otherwise) return;
  if (optimizer.supports_shards()) return;
  const char* const by = parallelism.tp > 1   ? "tp"
                         : parallelism.pp > 1 ? "pp"
                         : parallelism.ep > 1 ? "ep"
                                              : "fsdp";
  throw RecipeError({{where,
                      text("'{}' does not support the optimizer '{}', which needs whole "
                           "parameters",
                           by, type),
                      "use adamw, adam, sgd, lion, adagrad, rmsprop, muon or adafactor"}});
}

std::shared_ptr<DiskSwapper> build_swapper(const Job& job, bool is_estimate) {
  const FsdpSection& fsdp = job.recipe.accelerator.fsdp;
  if (fsdp.offload != Offload::kDisk) return nullptr;
  if (is_estimate) return std::make_shared<DiskSwapper>(nullptr);
  return std::make_shared<DiskSwapper>(
      std::make_unique<ScratchFile>(fsdp.offload_path.value_or(".")));
}

ShardHome shard_home(const Job& job) {
  const bool offloads = job.recipe.accelerator.fsdp.offload != Offload::kNone;
  const bool on_host = offloads && !job.device.is_cpu();
  if (on_host && job.recipe.accelerator.mixed_precision == MixedPrecision::kFp16) {
    throw RecipeError(
        {{recipe_place(job.resolved, "accelerator.fsdp.offload"),
          "'offload: cpu' does not support fp16 on a GPU, which would check gradients "
          "on the host",
          "train in bf16"}});
  }
  return {.on_host = on_host, .swapper = job.swapper};
}

std::string offload_summary(const Job& job) {
  switch (job.recipe.accelerator.fsdp.offload) {
    case Offload::kNone:
      return "";
    case Offload::kCpu:
      if (!job.device.is_cpu()) return "cpu: shards, gradients and optimizer state on the host";
      return "cpu: no effect, training is on the CPU; 'offload: disk' takes less memory";
    case Offload::kDisk:
      break;
  }
  std::array<char, 32> size;
  std::snprintf(size.data(), size.size(), "%.1f MiB",
                static_cast<double>(job.swapper->disk_bytes()) / (1 << 20));
  const ScratchFile* file = job.swapper->file();
  const std::string where = file ? " in '" + file->folder() + "'" : "";
  const bool direct = !file || file->is_direct();
  return std::string("disk: ") + size.data() + " per rank" + where +
         (direct ? "" : ", through the page cache: its file system has no direct I/O") +
         "; training waits while a checkpoint is written";
}

void check_swapping(const Job& job, const Optimizer& optimizer, const std::string& type,
                    const Span& where) {
  if (!job.swapper || optimizer.supports_swapping()) return;
  throw RecipeError({{where,
                      text("'offload: disk' does not support the optimizer '{}', which needs all "
                           "parameters in memory",
                           type),
                      "use adamw, adam, sgd, lion, adagrad or rmsprop"}});
}

void check_swapping(const Job& job, const Callback& callback, const Ref<Callback>& ref) {
  if (!job.swapper || callback.supports_swapping()) return;
  throw RecipeError({{ref.resolved.where,
                      text("'offload: disk' does not support the callback '{}', which may access "
                           "parameters that are on the disk",
                           ref.type),
                      "leave it out, or set 'offload: none'"}});
}

}  // namespace accel
