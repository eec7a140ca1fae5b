// Rank of this process, from the environment variables of its launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/environment.h"

namespace accel {

struct RankInfo {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t local_rank = 0;  ///< among the ranks of this machine
  int64_t local_world = 1;
  std::string main_address;  ///< of rank 0's store
  int64_t main_port = 0;
  std::string launcher;  ///< accel-run, torchrun, mpirun or srun
};

/// From the variables of torchrun, which accel-run's launcher sets too, or else of Open MPI, MPICH
/// and Intel MPI, or of srun. None for a process without a launcher, such as a batch script in a
/// Slurm allocation. Throws Error (exit code 2) for a missing, invalid or contradicting variable.
std::optional<RankInfo> find_rank(const EnvironmentLookup& lookup);

/// "n01" of Slurm's "n[01-03,7],gpu5". Throws Error (exit code 2) for an invalid list.
std::string first_host(const std::string& node_list);

}  // namespace accel
