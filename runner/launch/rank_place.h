// Which of many processes this one is, as the launcher that started it says in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace accel {

struct RankPlace {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t local_rank = 0;  ///< among those of this machine
  int64_t local_world = 1;
  std::string main_address;  ///< where rank 0's store is found
  int64_t main_port = 0;
  std::string launcher;  ///< accel-run, torchrun, mpirun or srun
};

/// The value of an environment variable, if it is set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// That of this process.
std::optional<std::string> environment_variable(const std::string& name);

/// What torchrun's variables say (accel-run's own launcher sets them too), or else those of Open
/// MPI, MPICH and Intel MPI, or of srun. None: this process was started alone; so was a batch
/// script in a Slurm allocation. Throws Error (exit code 2) naming the variable when one is
/// missing, is no number or contradicts another.
std::optional<RankPlace> find_rank(const EnvironmentLookup& lookup);

/// "n01" of Slurm's "n[01-03,7],gpu5". Throws Error (exit code 2) for what is no list of hosts.
std::string first_host(const std::string& node_list);

}  // namespace accel
