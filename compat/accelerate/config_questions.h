// Writer of Accelerate's config file, and the interactive questions of `accel-run config`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "core/recipe/node.h"

namespace accel {

enum class ConfigKind { kSingleProcess, kMultiGpu, kMultiCpu };

/// Options of `accelerator.fsdp` and `accelerator.parallelism`; stage 0 has no others.
struct ShardingAnswers {
  int64_t stage = 0;
  std::string dp_shard = "auto";
  bool reshard_after_forward = true;  ///< of stage 3
  std::string param_dtype = "auto";
  std::string reduce_dtype = "fp32";
  int64_t min_num_params = 0;
  std::string state_dict = "sharded";
};

/// The settings of a new config.
struct ConfigAnswers {
  ConfigKind kind = ConfigKind::kSingleProcess;
  bool use_cpu = true;          ///< with one process; otherwise given by `kind`
  std::string gpu_ids = "all";  ///< of this machine, "0,1"; only with GPUs
  int64_t num_machines = 1;
  int64_t machine_rank = 0;
  std::string main_process_ip;    ///< only with several machines
  int64_t main_process_port = 0;  ///< only with several machines
  int64_t num_processes = 1;      ///< over all machines
  bool debug = false;
  std::string mixed_precision = "no";
  std::string fp8_backend = "AO";  ///< under fp8
  ShardingAnswers sharding = {};   ///< only with several processes
};

/// The file with the keys that Accelerate writes, or with sharding the recipe's 'accelerator'
/// section, which has stage 1 and the types of weights and gradients as well.
Node config_tree(const ConfigAnswers& answers);

/// The file with old keys renamed, Accelerate's defaults added and empty keys removed. Unknown keys
/// go to `problems`.
Node updated_config(const Node& tree, Diagnostics& problems);

/// The tree, sorted by key: as JSON when `path` ends in .json, else as YAML.
std::string config_text(const Node& tree, const std::string& path);

/// Asks on `out` and reads one line per answer from `in`. An empty answer is the default in
/// brackets; the question is repeated after an invalid one. `gpus` of this machine is the proposed
/// number. Throws Error when `in` ends early.
ConfigAnswers ask_config(std::istream& in, std::ostream& out, int64_t gpus);

}  // namespace accel
