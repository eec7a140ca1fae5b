#include "compat/trainers/torchtitan_mesh.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "compat/trainers/sharding_readings.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// The key of a pipeline's ranks; "" without a pipeline.
std::string titan_pipeline_key(const TrainerConfig& config) {
  for (const char* section : {"parallelism", "training", "experimental"}) {
    const std::string key = text("{}.pipeline_parallel_degree", section);
    if (config.text(key).value_or("1") != "1") return key;
  }
  return "";
}

constexpr RenamedOption kTitanMesh[] = {
    {"parallelism.data_parallel_shard_degree", "dp_shard_size"},
    {"parallelism.data_parallel_replicate_degree", "dp_replicate_size"},
    {"training.data_parallel_shard_degree", "dp_shard_size"},
    {"training.data_parallel_replicate_degree", "dp_replicate_size"},
    {"parallelism.tensor_parallel_degree", "tp_size"},
    {"training.tensor_parallel_degree", "tp_size"},
};

/// Schedules of torch.distributed.pipelining and the ones here with the same passes.
constexpr std::pair<std::string_view, const char*> kTitanSchedules[] = {
    {"GPipe", "gpipe"},
    {"1F1B", "1f1b"},
    {"Interleaved1F1B", "interleaved_1f1b"},
    {"ZBVZeroBubble", "zbv"},
};

void read_titan_pipeline(TrainerConfig& config) {
  const std::string ranks_key = titan_pipeline_key(config);
  const bool divides = !ranks_key.empty();
  if (divides) {
    config.set_text("accelerator.parallelism.pp", *config.text(ranks_key), ranks_key);
  }
  for (const char* section : {"parallelism", "experimental"}) {
    const std::string key = text("{}.pipeline_parallel_schedule", section);
    const std::optional<std::string> schedule = config.text(key);
    if (!divides || !schedule) continue;
    const auto known = std::find_if(std::begin(kTitanSchedules), std::end(kTitanSchedules),
                                    [&](const auto& each) { return each.first == *schedule; });
    if (known == std::end(kTitanSchedules)) {
      config.refuse(key, text("the schedule '{}' is not available", *schedule),
                    "choose GPipe, 1F1B, Interleaved1F1B or ZBVZeroBubble");
    } else {
      config.set_text("accelerator.pipeline.schedule", known->second, key);
    }
  }
  constexpr auto kCount = "experimental.pipeline_parallel_microbatches";
  if (divides && config.find(kCount)) config.skip(kCount, "write 'train.micro_batch'");
  // Those that nothing above has reported.
  for (const char* section : {"parallelism", "training", "experimental"}) {
    for (const char* what : {"degree", "schedule", "microbatch_size", "microbatches"}) {
      config.ignore(text("{}.pipeline_parallel_{}", section, what));
    }
  }
}

/// Its tensor parallelism divides activations between layers by the sequence.
void read_titan_sequence_parallel(TrainerConfig& config) {
  for (const char* key :
       {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"}) {
    if (config.text(key).value_or("1") == "1") continue;
    config.set_text("accelerator.parallelism.sequence_parallel", "true", key);
  }
}

constexpr RenamedOption kTitanContext[] = {
    {"parallelism.context_parallel_degree", "cp_size"},
    {"experimental.context_parallel_degree", "cp_size"},
    {"parallelism.context_parallel_rotate_method", "cp_comm_strategy"},
    {"experimental.context_parallel_rotate_method", "cp_comm_strategy"},
};

/// Its data parallel ranks shard by default, unless 'data_parallel_shard_degree' is 1.
void read_titan_sharding(TrainerConfig& config) {
  std::string key;
  for (const char* each :
       {"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree"}) {
    if (config.find(each)) key = each;
  }
  const std::string reshard =
      config.text("parallelism.fsdp_reshard_after_forward").value_or("default");
  const bool shards = key.empty() || config.text(key) != "1";
  if (key.empty()) {
    config.set_text("accelerator.fsdp.stage", reshard == "never" ? "2" : "3",
                    "parallelism.data_parallel_shard_degree");
  } else if (shards) {
    const std::string value = reshard == "never" ? "false" : "true";
    read_sharding_option(config, kFsdpFamily, key, {{"reshard_after_forward", value}});
  }
  if (shards) config.take("parallelism.fsdp_reshard_after_forward");
  if (shards && config.text("training.enable_cpu_offload") == "true") {
    config.set_text("accelerator.fsdp.offload", "cpu", "training.enable_cpu_offload");
  }
  config.ignore("training.enable_cpu_offload");
  config.ignore("parallelism.fsdp_reshard_after_forward");
  read_renamed_sharding(config, kParallelismFamily, kTitanContext);
  if (shards) return read_renamed_sharding(config, kParallelismFamily, kTitanMesh);
  // Without sharding the ranks need no mesh.
  for (const RenamedOption& each : kTitanMesh) config.ignore(each.key);
}

}  // namespace

void read_titan_micro_batch(TrainerConfig& config, const std::string& local,
                            const char* local_key) {
  constexpr auto kSize = "parallelism.pipeline_parallel_microbatch_size";
  if (titan_pipeline_key(config).starts_with("parallelism.")) {
    config.set_text("train.micro_batch", config.text(kSize).value_or("1"), kSize);
    config.take(local_key);
  } else {
    config.set_text("train.micro_batch", local, local_key);
  }
}

void read_titan_mesh(TrainerConfig& config) {
  read_titan_sequence_parallel(config);
  read_titan_sharding(config);
  read_titan_pipeline(config);
}

}  // namespace accel
