// Accelerate's config file as text that Accelerate reads.
#pragma once

#include <cstdint>
#include <string>

#include "core/node.h"

namespace accel {

enum class ConfigKind { kOneProcess, kSeveralGpus, kSeveralOnCpu };

/// What a new config says.
struct ConfigAnswers {
  ConfigKind kind = ConfigKind::kOneProcess;
  bool use_cpu = true;          ///< of one process; several say it by their kind
  std::string gpu_ids = "all";  ///< of this machine, "0,1"; only where GPUs can be used
  int64_t num_machines = 1;
  int64_t machine_rank = 0;
  std::string main_process_ip;    ///< only with several machines
  int64_t main_process_port = 0;  ///< only with several machines
  int64_t num_processes = 1;      ///< over all machines
  bool debug = false;
  std::string mixed_precision = "no";
};

/// The file that says so, with the keys Accelerate itself writes.
Node config_tree(const ConfigAnswers& answers);

/// The file with its old keys renamed, Accelerate's defaults added and empty keys left out. What
/// Accelerate does not read goes to `problems`.
Node updated_config(const Node& tree, Diagnostics& problems);

/// The tree, sorted by key: as JSON when `path` ends in .json, else as YAML.
std::string config_text(const Node& tree, const std::string& path);

}  // namespace accel
