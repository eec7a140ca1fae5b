// The machines of a job, from the environment variables of a scheduler that starts one process on
// each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/environment.h"

namespace accel {

struct MachineInfo {
  std::string scheduler;  ///< "Kubeflow", "SageMaker", ...: for messages
  int64_t machines = 1;
  int64_t least_machines = 1;  ///< below `machines` for an elastic job: PET_NNODES=MIN:MAX
  int64_t machine_rank = 0;
  std::string main_address;  ///< of machine 0; empty on a single machine
  int64_t main_port = 0;
  std::optional<int64_t> ranks_per_machine;  ///< none: the scheduler leaves it to the program
  /// The variables of `machines`, `machine_rank` and `main_address`, for errors.
  std::string machines_name, rank_name, address_name;
};

/// From the variables of torchrun's command line (PET_*), which Kubeflow sets, or else of
/// SageMaker, AWS Batch, SkyPilot or dstack. None in a rank of torchrun, which has used them
/// itself, and without such a scheduler; a rank of accel-run's launcher sees its machines. Throws
/// Error (exit code 2) for a missing, invalid or contradicting variable.
std::optional<MachineInfo> find_machine(const EnvironmentLookup& lookup);

/// As find_machine() for a job that is known to use `machines` machines: also from the host lists
/// of PBS and LSF and the completion index of a Kubernetes Job, whose presence does not mean that
/// each machine runs this program. `host`: the name of this machine.
std::optional<MachineInfo> find_machine_of(int64_t machines, const std::string& host,
                                           const EnvironmentLookup& lookup);

}  // namespace accel
