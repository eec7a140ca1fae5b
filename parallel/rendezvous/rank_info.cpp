#include "parallel/rendezvous/rank_info.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/launcher_variables.h"
#include "parallel/rendezvous/machine_info.h"

namespace accel {
namespace {

constexpr auto kLoopback = "127.0.0.1";

/// A launcher's names of the four numbers of a rank.
struct Names {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};

void check_below(int64_t value, const char* name, int64_t limit, const char* limit_name) {
  if (value < limit) return;
  refuse_variables(
      text("environment variable '{}' is {}, but '{}' is {}", name, value, limit_name, limit),
      "ranks are counted from 0");
}

void check_info(const RankInfo& info, const Names& names) {
  check_below(info.rank, names.rank, info.world, names.world);
  check_below(info.local_rank, names.local_rank, info.local_world, names.local_world);
  if (info.local_world > info.world) {
    refuse_variables(text("environment variable '{}' is {}, but '{}' is {}", names.local_world,
                          info.local_world, names.world, info.world),
                     "no machine has more ranks than there are");
  }
}

RankInfo read_info(const LauncherVariables& from, const Names& names) {
  RankInfo info;
  info.launcher = from.launcher();
  info.rank = from.number(names.rank, names.world);
  info.world = from.number(names.world, names.rank, 1);
  info.local_rank = from.number(names.local_rank, names.rank);
  info.local_world = from.number(names.local_world, names.rank, 1);
  check_info(info, names);
  return info;
}

/// MASTER_ADDR and MASTER_PORT, or defaults.
void find_main(const LauncherVariables& from, RankInfo& info, const std::string& address,
               const std::string& job) {
  info.main_address = plain_address(from.value("MASTER_ADDR").value_or(address));
  info.main_port = from.has("MASTER_PORT")
                       ? from.number("MASTER_PORT", "MASTER_ADDR", 1, kLargestPort)
                       : port_of_job(job);
}

std::optional<RankInfo> torchrun_rank(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "torchrun");
  if (!from.has("RANK") && !from.has("WORLD_SIZE")) return std::nullopt;
  const Names names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  RankInfo info;
  if (from.has(names.local_rank) || from.has(names.local_world)) {
    from.need(names.local_rank, names.local_world);
    info = read_info(from, names);
  } else {  // Kubernetes operators set no local ranks: one process per pod
    info.launcher = from.launcher();
    info.rank = from.number(names.rank, names.world);
    info.world = from.number(names.world, names.rank, 1);
    check_below(info.rank, names.rank, info.world, names.world);
  }
  info.main_address = plain_address(from.need("MASTER_ADDR", "RANK"));
  info.main_port = from.number("MASTER_PORT", "RANK", 1, kLargestPort);
  if (from.has(kTokenVariable)) info.launcher = "accel-run";
  return info;
}

RankInfo mpi_rank(const LauncherVariables& from, const Names& names) {
  RankInfo info = read_info(from, names);
  if (info.local_world != info.world && !(from.has("MASTER_ADDR") && from.has("MASTER_PORT"))) {
    refuse_variables(
        "environment variables 'MASTER_ADDR' and 'MASTER_PORT' must say where rank 0 is found "
        "when mpirun uses several machines",
        "give mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500, or with MPICH and Intel MPI "
        "-genv NAME VALUE");
  }
  const char* const ids[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
                             "PBS_JOBID"};
  std::string job;
  for (const char* id : ids) job += from.value(id).value_or("") + ".";
  find_main(from, info, kLoopback, job);
  return info;
}

std::optional<RankInfo> open_mpi_rank(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "mpirun");
  const Names names = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                       "OMPI_COMM_WORLD_LOCAL_SIZE"};
  if (!from.has(names.rank) && !from.has(names.world)) return std::nullopt;
  return mpi_rank(from, names);
}

std::optional<RankInfo> hydra_rank(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "mpirun");
  const Names names = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  // srun --mpi=pmi2 and flux run set the first two as well; their own variables have the local
  // rank.
  const bool by_other =
      (from.has("SLURM_STEP_ID") || from.has("FLUX_TASK_RANK")) && !from.has(names.local_rank);
  if ((!from.has(names.rank) && !from.has(names.world)) || by_other) return std::nullopt;
  return mpi_rank(from, names);
}

/// Flux does not set the tasks of a node: they are equal on all nodes.
std::optional<RankInfo> flux_rank(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "flux run");
  // Of a program in an allocation's own script, "flux batch", there is one task.
  if (!from.has("FLUX_TASK_RANK") || !from.has("FLUX_JOB_SIZE")) return std::nullopt;
  RankInfo info;
  info.launcher = from.launcher();
  info.rank = from.number("FLUX_TASK_RANK", "FLUX_JOB_SIZE");
  info.world = from.number("FLUX_JOB_SIZE", "FLUX_TASK_RANK", 1);
  if (info.world == 1) return std::nullopt;
  const int64_t nodes = from.number("FLUX_JOB_NNODES", "FLUX_JOB_SIZE", 1, info.world);
  if (info.world % nodes != 0) {
    refuse_variables(text("environment variable 'FLUX_JOB_SIZE' is {}, which the {} nodes of "
                          "'FLUX_JOB_NNODES' cannot share evenly",
                          info.world, nodes),
                     "give 'flux run' as many tasks for each node: --tasks-per-node=N");
  }
  info.local_rank = from.number("FLUX_TASK_LOCAL_ID", "FLUX_TASK_RANK");
  info.local_world = info.world / nodes;
  check_info(info, {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_NNODES"});
  if (nodes > 1 && !from.has("MASTER_ADDR")) {
    refuse_variables(
        "environment variable 'MASTER_ADDR' must say where rank 0 is found when 'flux "
        "run' uses several nodes",
        "give 'flux run' --env=MASTER_ADDR=HOST, the first of 'flux resource list'");
  }
  find_main(from, info, kLoopback, from.value("FLUX_JOB_ID").value_or(""));
  return info;
}

/// Tasks of node `index` in Slurm's "4(x2),3": 4 on nodes 0 and 1, 3 on node 2.
std::optional<int64_t> tasks_of_node(const std::string& list, int64_t index) {
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int64_t tasks = 0, nodes = 1;
    auto read = std::from_chars(at, end, tasks);
    if (read.ec != std::errc() || tasks < 1) return std::nullopt;
    at = read.ptr;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      read = std::from_chars(at + 2, end, nodes);
      if (read.ec != std::errc() || read.ptr == end || *read.ptr != ')') return std::nullopt;
      at = read.ptr + 1;
    }
    if (index < nodes) return tasks;
    index -= nodes;
    if (at < end && *at++ != ',') return std::nullopt;
  }
  return std::nullopt;
}

int64_t local_tasks(const LauncherVariables& from) {
  const auto list = from.first({"SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"});
  if (!list) from.need("SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID");
  const bool by_node = list->find_first_of("(,") != std::string::npos;
  const int64_t node = by_node ? from.number("SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE") : 0;
  if (const auto tasks = tasks_of_node(*list, node)) return *tasks;
  refuse_variables(text("environment variable 'SLURM_STEP_TASKS_PER_NODE' is '{}', without node {}",
                        *list, node),
                   "it must have the value that srun sets, such as '4(x2),3'");
}

std::optional<RankInfo> srun_rank(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "srun");
  // A batch script has the variables of its allocation; a shell in it is a step of one task.
  if (!from.has("SLURM_STEP_ID") || !from.has("SLURM_PROCID")) return std::nullopt;
  const char* world = from.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (from.number(world, "SLURM_PROCID", 1) == 1) return std::nullopt;
  RankInfo info;
  info.launcher = from.launcher();
  info.rank = from.number("SLURM_PROCID", "SLURM_STEP_ID");
  info.world = from.number(world, "SLURM_PROCID", 1);
  info.local_rank = from.number("SLURM_LOCALID", "SLURM_PROCID");
  info.local_world = local_tasks(from);
  check_info(info, {"SLURM_PROCID", world, "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"});
  std::string address = kLoopback;
  if (info.local_world != info.world && !from.has("MASTER_ADDR")) {
    const auto nodes = from.first({"SLURM_STEP_NODELIST", "SLURM_NODELIST"});
    address = first_host(nodes ? *nodes : from.need("SLURM_STEP_NODELIST", "SLURM_PROCID"));
  }
  find_main(from, info, address,
            from.first({"SLURM_JOB_ID", "SLURM_JOBID"}).value_or("") + "." +
                from.value("SLURM_STEP_ID").value_or(""));
  return info;
}

}  // namespace

std::string first_host(const std::string& node_list) {
  std::string host;
  size_t at = 0;
  for (; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    const size_t close = node_list.find(']', at);
    const size_t number = node_list.find_first_of("-,]", at);
    if (close == std::string::npos || number == at + 1) {
      host.clear();
      break;
    }
    host += node_list.substr(at + 1, number - at - 1);
    at = close;
  }
  if (!host.empty()) return host;
  refuse_variables(
      text("'{}' is not a list of Slurm's hosts", node_list),
      "'SLURM_STEP_NODELIST' must have the value that srun sets, such as 'n[01-03,7],gpu5', or "
      "else set "
      "'MASTER_ADDR'");
}

std::optional<RankInfo> find_rank(const EnvironmentLookup& lookup) {
  // One process per machine, whose launcher starts the ranks.
  if (!lookup(kTokenVariable) && find_machine(lookup)) return std::nullopt;
  for (const auto find : {&torchrun_rank, &open_mpi_rank, &hydra_rank, &flux_rank, &srun_rank}) {
    if (auto info = find(lookup)) return info;
  }
  return std::nullopt;
}

}  // namespace accel
