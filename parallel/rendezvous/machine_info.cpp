#include "parallel/rendezvous/machine_info.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/launcher_variables.h"

namespace accel {
namespace {

constexpr int64_t kDefaultPort = 29500;  // torchrun's
constexpr int64_t kMostMachines = 1 << 20;

std::optional<int64_t> whole(std::string_view digits) {
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

void check_rank(const MachineInfo& info) {
  if (info.machine_rank < info.machines) return;
  refuse_variables(text("environment variable '{}' is {}, but '{}' is {}", info.rank_name,
                        info.machine_rank, info.machines_name, info.machines),
                   "machines are counted from 0");
}

/// Refuses `name` unless it is unset or one of `wanted`, values that agree with `other`.
void check_agrees(const LauncherVariables& from, const char* name, const std::string& other,
                  const std::vector<std::string>& wanted) {
  const auto found = from.value(name);
  if (!found || std::find(wanted.begin(), wanted.end(), *found) != wanted.end()) return;
  refuse_variables(text("environment variables '{}' and '{}' contradict each other: '{}' and '{}'",
                        name, other, *found, wanted.front()),
                   text("unset the one that {} has not set", from.launcher()));
}

/// PET_NNODES: "4", or "2:4" of an elastic job.
void read_pet_machines(const LauncherVariables& from, MachineInfo& info) {
  const std::string given = from.need("PET_NNODES", "PET_NODE_RANK");
  const size_t colon = given.find(':');
  const auto most = whole(std::string_view(given).substr(colon == given.npos ? 0 : colon + 1));
  const auto least = colon == given.npos ? most : whole(std::string_view(given).substr(0, colon));
  if (!most || !least || *least < 1 || *least > *most || *most > kMostMachines) {
    refuse_variables(
        text("environment variable 'PET_NNODES' is '{}', not a number of machines or MIN:MAX",
             given),
        "set it to '2', or '1:4' for an elastic job");
  }
  info.machines = *most;
  info.least_machines = *least;
}

std::optional<int64_t> pet_ranks(const LauncherVariables& from) {
  const auto given = from.value("PET_NPROC_PER_NODE");
  if (!given || *given == "auto" || *given == "gpu" || *given == "cpu") return std::nullopt;
  return from.number("PET_NPROC_PER_NODE", "PET_NNODES", 1);
}

/// Version 1 of Kubeflow's operator also sets RANK and WORLD_SIZE: of machines, or ranks in all.
void check_pytorch_job(const LauncherVariables& from, const MachineInfo& info) {
  check_agrees(from, "RANK", "PET_NODE_RANK", {std::to_string(info.machine_rank)});
  check_agrees(from, "WORLD_SIZE", "PET_NNODES",
               {std::to_string(info.machines),
                std::to_string(info.machines * info.ranks_per_machine.value_or(1))});
  if (info.main_address.empty()) return;
  check_agrees(from, "MASTER_ADDR", "PET_MASTER_ADDR",
               {info.main_address, "[" + info.main_address + "]"});
  check_agrees(from, "MASTER_PORT", "PET_MASTER_PORT", {std::to_string(info.main_port)});
}

/// srun starts one launcher on each machine; in a shell of Slurm there is one task.
void check_tasks(const LauncherVariables& from, const MachineInfo& info) {
  if (!from.has("SLURM_STEP_ID") || !from.has("SLURM_STEP_NUM_TASKS")) return;
  const int64_t tasks = from.number("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", 1);
  if (tasks == 1 || (tasks >= info.least_machines && tasks <= info.machines)) return;
  refuse_variables(text("environment variables 'SLURM_STEP_NUM_TASKS' and 'PET_NNODES' contradict "
                        "each other: {} tasks and {} machines",
                        tasks, info.machines),
                   "start one task on each machine with 'srun --ntasks-per-node=1', or unset the "
                   "variables PET_*");
}

std::optional<MachineInfo> pet_machine(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "Kubeflow");
  if (!from.has("PET_NNODES") && !from.has("PET_NODE_RANK")) return std::nullopt;
  MachineInfo info;
  info.scheduler = from.launcher();
  info.machines_name = "PET_NNODES";
  info.rank_name = "PET_NODE_RANK";
  info.address_name = "PET_MASTER_ADDR";
  read_pet_machines(from, info);
  info.ranks_per_machine = pet_ranks(from);
  if (info.machines > 1 || from.has("PET_NODE_RANK")) {
    info.machine_rank = from.number("PET_NODE_RANK", "PET_NNODES");
  }
  check_rank(info);
  if (info.machines > 1) {
    info.main_address = plain_address(from.need("PET_MASTER_ADDR", "PET_NNODES"));
    info.main_port = from.has("PET_MASTER_PORT")
                         ? from.number("PET_MASTER_PORT", "PET_MASTER_ADDR", 1, kLargestPort)
                         : kDefaultPort;
  }
  if (from.has(kTokenVariable)) return info;
  check_pytorch_job(from, info);
  check_tasks(from, info);
  return info;
}

constexpr auto kSageMakerFile = "resourceconfig.json";

/// The file's path; none outside SageMaker.
std::optional<std::string> sagemaker_file(const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "SageMaker");
  const auto folder = from.value("SM_INPUT_CONFIG_DIR");
  if (!folder && !from.has("TRAINING_JOB_NAME")) return std::nullopt;
  const std::string path = folder.value_or("/opt/ml/input/config") + "/" + kSageMakerFile;
  if (std::ifstream(path)) return path;
  if (!folder) return std::nullopt;
  refuse_variables(text("'{}' of SageMaker cannot be read", path),
                   "correct or unset 'SM_INPUT_CONFIG_DIR'");
}

[[noreturn]] void refuse_resources(const std::string& path, const std::string& why) {
  refuse_variables(text("'{}' of SageMaker is invalid: {}", path, why),
                   "it has 'current_host' and 'hosts'");
}

/// `{"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]}`: the first host is machine 0.
std::optional<MachineInfo> sagemaker_machine(const EnvironmentLookup& lookup) {
  const auto found = sagemaker_file(lookup);
  if (!found) return std::nullopt;
  const std::string& path = *found;
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  const auto hosts = json.is_object() ? json.find("hosts") : json.end();
  const auto own = json.is_object() ? json.find("current_host") : json.end();
  if (json.is_discarded() || hosts == json.end() || own == json.end() || !hosts->is_array() ||
      !own->is_string()) {
    refuse_resources(path, "it lacks the list 'hosts' or the text 'current_host'");
  }
  std::vector<std::string> names;
  for (const auto& host : *hosts) {
    if (!host.is_string()) refuse_resources(path, "'hosts' has an item that is not a text");
    names.push_back(host.get<std::string>());
  }
  // "algo-10" is after "algo-9".
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  const auto at = std::find(names.begin(), names.end(), own->get<std::string>());
  if (at == names.end()) {
    refuse_resources(
        path, text("'current_host' is '{}', which is not in 'hosts'", own->get<std::string>()));
  }
  MachineInfo info;
  info.scheduler = "SageMaker";
  info.machines = info.least_machines = static_cast<int64_t>(names.size());
  info.machine_rank = at - names.begin();
  info.machines_name = info.rank_name = info.address_name = path;
  if (info.machines > 1) info.main_address = names.front();
  info.main_port = kDefaultPort;
  return info;
}

/// The variables of a scheduler that sets a number, a rank and an address.
struct MachineNames {
  const char* scheduler;
  const char* machines;
  const char* rank;
  const char* address;  ///< of machine 0, or a list of addresses, one a line
  const char* ranks;    ///< GPUs of a machine; null: none
  const char* main;     ///< the index of the machine with that address; null: 0
};

constexpr MachineNames kMachineNames[] = {
    {"AWS Batch", "AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX",
     "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", nullptr, "AWS_BATCH_JOB_MAIN_NODE_INDEX"},
    {"SkyPilot", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS",
     "SKYPILOT_NUM_GPUS_PER_NODE", nullptr},
    {"dstack", "DSTACK_NODES_NUM", "DSTACK_NODE_RANK", "DSTACK_MASTER_NODE_IP",
     "DSTACK_GPUS_PER_NODE", nullptr},
};

/// Machine 0 is the main one, whatever its index: the others follow in their order.
int64_t rank_after_main(const LauncherVariables& from, const MachineNames& names, int64_t index,
                        int64_t machines) {
  if (!names.main || !from.has(names.main)) return index;
  const int64_t main = from.number(names.main, names.rank, 0, machines - 1);
  return index == main ? 0 : index < main ? index + 1 : index;
}

/// The first address of a list, which has one for each machine.
std::string first_address(std::string list, const MachineInfo& info) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream in(list);
  const std::vector<std::string> all{std::istream_iterator<std::string>(in), {}};
  if (all.size() == 1 || static_cast<int64_t>(all.size()) == info.machines) {
    return plain_address(all.front());
  }
  refuse_variables(
      text(
          "environment variables '{}' and '{}' contradict each other: {} addresses and {} machines",
          info.address_name, info.machines_name, all.size(), info.machines),
      text("unset the one that {} has not set", info.scheduler));
}

std::optional<MachineInfo> named_machine(const MachineNames& names,
                                         const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, names.scheduler);
  if (!from.has(names.rank) || (!from.has(names.machines) && !from.has(names.address))) {
    return std::nullopt;
  }
  MachineInfo info;
  info.scheduler = names.scheduler;
  info.machines_name = names.machines;
  info.rank_name = names.rank;
  info.address_name = names.address;
  info.machines = info.least_machines = from.number(names.machines, names.rank, 1, kMostMachines);
  info.machine_rank = from.number(names.rank, names.machines);
  check_rank(info);
  info.machine_rank = rank_after_main(from, names, info.machine_rank, info.machines);
  if (names.ranks && from.has(names.ranks)) {
    const int64_t gpus = from.number(names.ranks, names.machines);
    if (gpus > 0) info.ranks_per_machine = gpus;
  }
  info.main_port = kDefaultPort;
  if (info.machines == 1) return info;
  // AWS Batch does not set the address on machine 0 itself.
  const bool is_main = info.machine_rank == 0;
  const std::string addresses = is_main ? from.value(names.address).value_or(host_name())
                                        : from.need(names.address, names.rank);
  info.main_address = first_address(addresses, info);
  return info;
}

/// Host names in the order of their first line or word, each once; every second word is a number
/// for LSF's LSB_MCPU_HOSTS.
std::vector<std::string> hosts_in(std::istream& in, bool with_counts) {
  std::vector<std::string> hosts;
  for (std::string word; in >> word;) {
    if (std::find(hosts.begin(), hosts.end(), word) == hosts.end()) hosts.push_back(word);
    if (with_counts) in >> word;
  }
  return hosts;
}

std::string short_name(const std::string& host) {
  return host.substr(0, host.find('.'));
}

std::optional<MachineInfo> listed_machine(const LauncherVariables& from, const char* list,
                                          const std::vector<std::string>& hosts,
                                          const std::string& host) {
  MachineInfo info;
  info.scheduler = from.launcher();
  info.machines_name = info.rank_name = info.address_name = list;
  info.machines = info.least_machines = static_cast<int64_t>(hosts.size());
  auto at = std::find(hosts.begin(), hosts.end(), host);
  if (at == hosts.end()) {  // without a domain, or with that of another network
    const auto same = [&](const std::string& name) { return short_name(name) == short_name(host); };
    if (std::count_if(hosts.begin(), hosts.end(), same) == 1) {
      at = std::find_if(hosts.begin(), hosts.end(), same);
    }
  }
  if (at == hosts.end()) {
    refuse_variables(text("this machine is '{}', which is not in the hosts of '{}': {}", host, list,
                          joined(hosts)),
                     "set 'accelerator.machine_rank' on each machine");
  }
  info.machine_rank = at - hosts.begin();
  info.main_address = hosts.front();
  info.main_port = port_of_job(from.first({"PBS_JOBID", "LSB_JOBID"}).value_or(""));
  return info;
}

std::optional<MachineInfo> pbs_machine(const std::string& host, const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "PBS");
  const auto path = from.value("PBS_NODEFILE");
  if (!path) return std::nullopt;
  std::ifstream in(*path);
  if (!in) {
    refuse_variables(
        text("environment variable 'PBS_NODEFILE' is '{}', which cannot be read", *path),
        "start accel-run with pbsdsh on each machine of the job");
  }
  return listed_machine(from, "PBS_NODEFILE", hosts_in(in, false), host);
}

std::optional<MachineInfo> lsf_machine(const std::string& host, const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "LSF");
  if (const auto path = from.value("LSB_DJOB_HOSTFILE")) {
    if (std::ifstream in(*path); in) {
      return listed_machine(from, "LSB_DJOB_HOSTFILE", hosts_in(in, false), host);
    }
  }
  const auto list = from.value("LSB_MCPU_HOSTS");
  if (!list) return std::nullopt;
  std::istringstream in(*list);
  return listed_machine(from, "LSB_MCPU_HOSTS", hosts_in(in, true), host);
}

/// An indexed Job of Kubernetes sets the index only.
std::optional<MachineInfo> indexed_machine(int64_t machines, const EnvironmentLookup& lookup) {
  const LauncherVariables from(lookup, "Kubernetes");
  if (!from.has("JOB_COMPLETION_INDEX")) return std::nullopt;
  MachineInfo info;
  info.scheduler = from.launcher();
  info.machines_name = "accelerator.num_machines";
  info.rank_name = "JOB_COMPLETION_INDEX";
  info.machines = info.least_machines = machines;
  info.machine_rank = from.number("JOB_COMPLETION_INDEX", "KUBERNETES_SERVICE_HOST");
  check_rank(info);
  return info;
}

}  // namespace

std::optional<MachineInfo> find_machine(const EnvironmentLookup& lookup) {
  // torchrun sets LOCAL_RANK too, and has used the scheduler's variables itself. In ranks of
  // accel-run's launcher they describe its machines, and RANK is of find_rank().
  const LauncherVariables from(lookup, "");
  const bool is_own_rank = from.has(kTokenVariable);
  if (from.has("LOCAL_RANK") && !is_own_rank) return std::nullopt;
  if (auto info = pet_machine(lookup)) return info;
  if (!is_own_rank && (from.has("RANK") || from.has("WORLD_SIZE"))) return std::nullopt;
  if (auto info = sagemaker_machine(lookup)) return info;
  for (const MachineNames& names : kMachineNames) {
    if (auto info = named_machine(names, lookup)) return info;
  }
  return std::nullopt;
}

std::optional<MachineInfo> find_machine_of(int64_t machines, const std::string& host,
                                           const EnvironmentLookup& lookup) {
  if (auto info = find_machine(lookup)) return info;
  const LauncherVariables from(lookup, "");
  if (machines == 1 || (from.has("RANK") && !from.has(kTokenVariable))) return std::nullopt;
  if (auto info = pbs_machine(host, lookup)) return info;
  if (auto info = lsf_machine(host, lookup)) return info;
  return indexed_machine(machines, lookup);
}

}  // namespace accel
