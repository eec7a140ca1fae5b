#include "runner/launch/rank_place.h"

#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "core/error.h"
#include "runner/launch/rank_link.h"

namespace accel {
namespace {

constexpr auto kLoopback = "127.0.0.1";
constexpr int64_t kLargestPort = 65535;
constexpr int64_t kMostRanks = 1 << 24;

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

std::string variable(const std::string& name) {
  return "environment variable '" + name + "'";
}

/// The variables of one launcher.
class Variables {
 public:
  Variables(const EnvironmentLookup& lookup, std::string launcher)
      : lookup_(lookup), launcher_(std::move(launcher)) {}

  std::optional<std::string> text(const std::string& name) const { return lookup_(name); }
  bool has(const std::string& name) const { return lookup_(name).has_value(); }

  /// The first of the variables that is set.
  std::optional<std::string> first(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (auto value = text(name)) return value;
    }
    return std::nullopt;
  }

  /// `because` is the variable without which this one would not be needed.
  std::string need(const std::string& name, const std::string& because) const {
    if (auto value = text(name)) return *value;
    refuse(variable(because) + " is set, but not '" + name + "'",
           "set both, as " + launcher_ + " does, or unset '" + because + "'");
  }

  int64_t number(const std::string& name, const std::string& because, int64_t least = 0,
                 int64_t most = kMostRanks) const {
    const std::string value = need(name, because);
    int64_t number = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error == std::errc() && stop == end && number >= least && number <= most) return number;
    refuse(variable(name) + " is '" + value + "', not a whole number from " +
               std::to_string(least) + " to " + std::to_string(most),
           "it must be what " + launcher_ + " sets");
  }

  const std::string& launcher() const { return launcher_; }

 private:
  const EnvironmentLookup& lookup_;
  std::string launcher_;
};

/// How a launcher calls the four numbers of a rank's place.
struct Names {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};

void check_below(int64_t value, const char* name, int64_t limit, const char* limit_name) {
  if (value < limit) return;
  refuse(variable(name) + " is " + std::to_string(value) + ", but '" + limit_name + "' is " +
             std::to_string(limit),
         "ranks are counted from 0");
}

void check_place(const RankPlace& place, const Names& names) {
  check_below(place.rank, names.rank, place.world, names.world);
  check_below(place.local_rank, names.local_rank, place.local_world, names.local_world);
  if (place.local_world > place.world) {
    refuse(variable(names.local_world) + " is " + std::to_string(place.local_world) + ", but '" +
               names.world + "' is " + std::to_string(place.world),
           "no machine has more ranks than there are");
  }
}

RankPlace read_place(const Variables& from, const Names& names) {
  RankPlace place;
  place.launcher = from.launcher();
  place.rank = from.number(names.rank, names.world);
  place.world = from.number(names.world, names.rank, 1);
  place.local_rank = from.number(names.local_rank, names.rank);
  place.local_world = from.number(names.local_world, names.rank, 1);
  check_place(place, names);
  return place;
}

/// The same for all ranks of a job, and most likely another one for another job. Below the ports
/// that Linux gives to outgoing connections.
int64_t port_of_job(const std::string& job) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return 20000 + static_cast<int64_t>(hash % 10000);
}

/// MASTER_ADDR and MASTER_PORT, or what stands in for them.
void find_main(const Variables& from, RankPlace& place, const std::string& address,
               const std::string& job) {
  place.main_address = from.text("MASTER_ADDR").value_or(address);
  place.main_port = from.has("MASTER_PORT")
                        ? from.number("MASTER_PORT", "MASTER_ADDR", 1, kLargestPort)
                        : port_of_job(job);
}

std::optional<RankPlace> torchrun_rank(const EnvironmentLookup& lookup) {
  const Variables from(lookup, "torchrun");
  if (!from.has("RANK") && !from.has("WORLD_SIZE")) return std::nullopt;
  const Names names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  RankPlace place;
  if (from.has(names.local_rank) || from.has(names.local_world)) {
    from.need(names.local_rank, names.local_world);
    place = read_place(from, names);
  } else {  // Kubernetes operators name no local ranks: one process in each pod
    place.launcher = from.launcher();
    place.rank = from.number(names.rank, names.world);
    place.world = from.number(names.world, names.rank, 1);
    check_below(place.rank, names.rank, place.world, names.world);
  }
  place.main_address = from.need("MASTER_ADDR", "RANK");
  place.main_port = from.number("MASTER_PORT", "RANK", 1, kLargestPort);
  if (from.has(kTokenVariable)) place.launcher = "accel-run";
  return place;
}

RankPlace mpi_rank(const Variables& from, const Names& names) {
  RankPlace place = read_place(from, names);
  if (place.local_world != place.world && !(from.has("MASTER_ADDR") && from.has("MASTER_PORT"))) {
    refuse(
        "environment variables 'MASTER_ADDR' and 'MASTER_PORT' must say where rank 0 is found "
        "when mpirun uses several machines",
        "give mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500, or with MPICH and Intel MPI "
        "-genv NAME VALUE");
  }
  const char* const ids[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
                             "PBS_JOBID"};
  std::string job;
  for (const char* id : ids) job += from.text(id).value_or("") + ".";
  find_main(from, place, kLoopback, job);
  return place;
}

std::optional<RankPlace> open_mpi_rank(const EnvironmentLookup& lookup) {
  const Variables from(lookup, "mpirun");
  const Names names = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                       "OMPI_COMM_WORLD_LOCAL_SIZE"};
  if (!from.has(names.rank) && !from.has(names.world)) return std::nullopt;
  return mpi_rank(from, names);
}

std::optional<RankPlace> hydra_rank(const EnvironmentLookup& lookup) {
  const Variables from(lookup, "mpirun");
  const Names names = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  // srun --mpi=pmi2 sets the first two as well, but says in its own variables where a rank is.
  const bool by_srun = from.has("SLURM_STEP_ID") && !from.has(names.local_rank);
  if ((!from.has(names.rank) && !from.has(names.world)) || by_srun) return std::nullopt;
  return mpi_rank(from, names);
}

/// The tasks of node `index` in Slurm's "4(x2),3": here 4 of nodes 0 and 1, 3 of node 2.
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

int64_t local_tasks(const Variables& from) {
  const auto list = from.first({"SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"});
  if (!list) from.need("SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID");
  const bool by_node = list->find_first_of("(,") != std::string::npos;
  const int64_t node = by_node ? from.number("SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE") : 0;
  if (const auto tasks = tasks_of_node(*list, node)) return *tasks;
  refuse(variable("SLURM_STEP_TASKS_PER_NODE") + " is '" + *list +
             "', which says nothing of node " + std::to_string(node),
         "it must be what srun sets, such as '4(x2),3'");
}

std::optional<RankPlace> srun_rank(const EnvironmentLookup& lookup) {
  const Variables from(lookup, "srun");
  // A batch script has the variables of its allocation, and a shell in it is a step of one task.
  if (!from.has("SLURM_STEP_ID") || !from.has("SLURM_PROCID")) return std::nullopt;
  const char* world = from.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (from.number(world, "SLURM_PROCID", 1) == 1) return std::nullopt;
  RankPlace place;
  place.launcher = from.launcher();
  place.rank = from.number("SLURM_PROCID", "SLURM_STEP_ID");
  place.world = from.number(world, "SLURM_PROCID", 1);
  place.local_rank = from.number("SLURM_LOCALID", "SLURM_PROCID");
  place.local_world = local_tasks(from);
  check_place(place, {"SLURM_PROCID", world, "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"});
  std::string address = kLoopback;
  if (place.local_world != place.world && !from.has("MASTER_ADDR")) {
    const auto nodes = from.first({"SLURM_STEP_NODELIST", "SLURM_NODELIST"});
    address = first_host(nodes ? *nodes : from.need("SLURM_STEP_NODELIST", "SLURM_PROCID"));
  }
  find_main(from, place, address,
            from.first({"SLURM_JOB_ID", "SLURM_JOBID"}).value_or("") + "." +
                from.text("SLURM_STEP_ID").value_or(""));
  return place;
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

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
  refuse("'" + node_list + "' is no list of Slurm's hosts",
         "'SLURM_STEP_NODELIST' must be what srun sets, such as 'n[01-03,7],gpu5', or else set "
         "'MASTER_ADDR'");
}

std::optional<RankPlace> find_rank(const EnvironmentLookup& lookup) {
  for (const auto find : {&torchrun_rank, &open_mpi_rank, &hydra_rank, &srun_rank}) {
    if (auto place = find(lookup)) return place;
  }
  return std::nullopt;
}

}  // namespace accel
