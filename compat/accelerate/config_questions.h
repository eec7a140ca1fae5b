// Writer of Accelerate's config file, and the interactive questions of `accel-run config`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "core/recipe/node.h"

namespace accel {

enum class ConfigKind { kSingleProcess, kMultiGpu, kMultiCpu };

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
};

/// The file with the keys that Accelerate writes.
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
